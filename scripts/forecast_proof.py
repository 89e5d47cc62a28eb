"""Is the forecast what the engine then measures? Asks the real engine, plainly and with every draft.

    uv run python scripts/forecast_proof.py [--windows 3,7,15] [--draft-windows 3,7]

Serves SmolLM2-135M in llama.cpp on this machine. Five prompts are answered plainly; from these answers alone
the tokens per step of look-up and of two draft models are forecast; then each is served and asked. The draft
models are the target's own weights: in Q4_1, as packaged and as the rehearsal serves them, and in Q4_0, as
`--draft shipped` reads them. Prints a row per draft and window in Markdown, and every request that
differs.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specdec.analysis.replay import steps
from specdec.experiment.fields import Variant
from specdec.experiment.reading import load
from specdec.folders import cache_folder
from specdec.forecast.answers import Answer
from specdec.forecast.bits import Bank
from specdec.forecast.drafts import Draft, LookUp, Model
from specdec.forecast.model import LlamaModel
from specdec.forecast.shipped import packaged
from specdec.forecast.tokens import tokenize
from specdec.forecast.weights import ready
from specdec.prompts.sets import Prompt
from specdec.prompts.sets import load as load_prompts
from specdec.rehearsal.engines.llamacpp import MATCHED_TOKENS, LlamaCpp, Setup

PROMPTS = ("repetition-2", "json-3", "code-2", "story-1", "explanation-2")
TOKENS = 96


def ask(url: str, prompt: Prompt) -> Any:
    """One greedy answer of ``TOKENS`` tokens, as the server gives it."""
    messages = [{"role": turn.role, "content": turn.content} for turn in prompt.conversation]
    body = {"messages": messages, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(  # noqa: S310 - a server of our own
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as reply:  # noqa: S310
        return json.load(reply)


def prove(draft: Draft, setup: Setup, windows: Sequence[int], tokenizer: LlamaModel, folder: Path) -> None:
    """Prints a row per window."""
    experiment = load(Path("experiment.toml"))
    drafted = next(variant for variant in experiment.variants if variant.speculative)
    variants: list[Variant] = [
        drafted.model_copy(update={"name": f"w{k}", "service": f"w{k}", "window": k}) for k in windows
    ]
    engine = LlamaCpp(cache=cache_folder(os.environ) / "weights", setup=setup)
    engine.check()
    engine.prepare(lambda _: None)
    prompts = [prompt for prompt in load_prompts("rehearsal") if prompt.id in PROMPTS]
    try:
        plain, *services = engine.start([experiment.baseline, *variants], folder / draft.name, lambda _: None)
        answers: list[Answer] = []
        for prompt in prompts:
            reply = ask(plain.url, prompt)
            answers.append(
                Answer(
                    id=prompt.id,
                    group=prompt.test_case,
                    messages=tuple((turn.role, turn.content) for turn in prompt.conversation),
                    text=reply["choices"][0]["message"]["content"],
                    prompt_tokens=reply["usage"]["prompt_tokens"],
                    completion_tokens=reply["usage"]["completion_tokens"],
                )
            )
        texts = tokenize(answers, tokenizer).texts
        kept = {text.answer.id: draft.kept(text) for text in texts}
        for window, service in zip(windows, services, strict=True):
            equal, notes, rows = 0, list[str](), list[str]()
            for prompt in prompts:
                reply = ask(service.url, prompt)
                timings = reply["timings"]
                after_first = timings["predicted_n"] - 1
                measured = after_first / (after_first - timings.get("draft_n_accepted", 0))
                sizes = steps(kept[prompt.id][window].kept, window)
                forecast = sum(sizes) / len(sizes)
                equal += forecast == measured
                rows.append(f"{measured:.2f}")
                if forecast != measured:
                    same = reply["choices"][0]["message"]["content"] == next(
                        answer.text for answer in answers if answer.id == prompt.id
                    )
                    why = "the draft chose otherwise" if same else "the text differs"
                    notes.append(f"{prompt.id}: {forecast:.3f} forecast, {measured:.3f} measured: {why}")
            print(f"| {draft.name} | {window} | {' / '.join(rows)} | {equal} of {len(prompts)} |", flush=True)
            for note in notes:
                print(f"<!-- {note} -->")
    finally:
        engine.stop()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", default="3,7,15", help="of look-up")
    parser.add_argument("--draft-windows", default="3,7", help="of the draft models")
    arguments = parser.parse_args()
    looked, drafted = (
        [int(part) for part in text.split(",")] for text in (arguments.windows, arguments.draft_windows)
    )
    print("| draft | window | tokens per step, measured, by prompt | forecast equals it |")
    print("| --- | ---: | --- | ---: |")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tokenizer = LlamaModel(packaged())
        if looked:
            prove(LookUp(MATCHED_TOKENS), Setup(), looked, tokenizer, folder)
        cache = cache_folder(os.environ) / "weights"
        for name, path in (("Q4_1 model", packaged()), ("Q4_0 model", ready(cache, "Q4_0").path)):
            draft = Model(name, LlamaModel(path), Bank(folder, name))
            prove(draft, Setup(form="f32", draft_model=True, draft=path), drafted, tokenizer, folder)


if __name__ == "__main__":
    main()
