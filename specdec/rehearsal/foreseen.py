"""The forecast from a rehearsal's baseline texts, compared with what its other variants measured."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from specdec.folders import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from specdec.runs.folder import Run


def foresee(folder: Path, *, base: Path | None, on_progress: Callable[[str], None]) -> tuple[int, int]:
    """Forecasts every variant of a run that the local engine served, and writes the comparison beside it.

    Variants alternate in a run, so that the forecast cannot be made before the first of them is asked. It is
    made from the baseline's records alone, and written, before any other is looked at.

    Args:
        folder: of the run.
        base: folder that a relative prompt file starts from.
        on_progress: told what is replayed.

    Returns:
        Requests whose tokens per step came out as forecast, and all that were compared.
    """
    from specdec.forecast import check
    from specdec.forecast.drafts import Draft, LookUp, open_draft
    from specdec.forecast.model import opened
    from specdec.forecast.shipped import PACKAGED_FORM, packaged
    from specdec.rehearsal.engines.llamacpp_server import MATCHED_TOKENS
    from specdec.runs.folder import read_run

    run: Run = read_run(folder)
    plain = check.baseline_of(run)
    made: list[check.Foreseen] = []
    with ExitStack() as opening:
        tokenizer = opening.enter_context(opened(packaged()))
        for name, variant in run.manifest.variants.items():
            draft: Draft
            match variant.get("mode"):
                case "ngram":
                    draft = LookUp(MATCHED_TOKENS)
                case "draft":
                    # As the engine serves it: another form of the same weights chooses differently.
                    name_of_draft = f"shipped:{PACKAGED_FORM}"
                    draft = open_draft(name_of_draft, cache=cache_folder(os.environ), tokenizer=None)
                case _:
                    continue
            opening.callback(draft.close)
            on_progress(f"{name}: {draft.name}")
            made += check.foresee(plain, name, draft, tokenizer, base=base)
    check.write_foreseen(made, folder)
    rows = check.check(run, check.read_foreseen(folder))
    check.write(rows, folder)
    return sum(row.equal for row in rows), sum(row.compared for row in rows)
