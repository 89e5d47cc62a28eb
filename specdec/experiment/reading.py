"""Reads an experiment from TOML text, and finds every mistake in it in one go."""

from __future__ import annotations

import difflib
import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, cast, get_args

from pydantic import TypeAdapter, ValidationError

from specdec.errors import BadInputError, Mistake
from specdec.experiment import checks as checks
from specdec.experiment import cluster_checks as cluster_checks
from specdec.experiment import network_checks as network_checks
from specdec.experiment import node_checks as node_checks
from specdec.experiment import serving_checks as serving_checks
from specdec.experiment import stack_checks as stack_checks
from specdec.experiment.fields import Experiment, Section
from specdec.experiment.registry import mistakes_of


def load(path: Path) -> Experiment:
    """Reads an experiment file.

    Raises:
        BadInputError: the file is absent, not TOML, or wrong; every mistake is in the message.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(
            str(path),
            [
                Mistake(
                    "file",
                    str(path),
                    str(error),
                    "Name an experiment file; a clone of the project has experiment.toml and examples/",
                )
            ],
        ) from None
    return parse(text, source=str(path))


def parse(text: str, *, source: str = "experiment") -> Experiment:
    """The experiment that a TOML text describes.

    Args:
        text: TOML.
        source: what the text is called in messages.

    Raises:
        BadInputError: not TOML, or wrong; every mistake is in the message.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(
            source, [Mistake("file", source, f"not TOML: {error}", "Correct the line named")]
        ) from None
    except RecursionError:
        raise BadInputError(
            source, [Mistake("file", source, "is nested too deeply", "Close the brackets where they belong")]
        ) from None
    mistakes: list[Mistake] = []
    parts: dict[str, Any] = {}
    for name, info in Experiment.model_fields.items():
        if name not in raw:
            if info.is_required():
                mistakes.append(Mistake(name, None, "is missing", f"Add it: {info.description or name}"))
            else:
                parts[name] = info.get_default(call_default_factory=True)
            continue
        section_mistakes, part = _section(name, raw[name])
        mistakes.extend(section_mistakes)
        if part is not None:
            parts[name] = part
    mistakes.extend(
        _unknown(name, value, list(Experiment.model_fields))
        for name, value in raw.items()
        if name not in Experiment.model_fields
    )
    wrong = {mistake.field for mistake in mistakes}
    mistakes.extend(mistake for mistake in mistakes_of(parts) if mistake.field not in wrong)
    if mistakes:
        raise BadInputError(source, mistakes)
    return Experiment(**parts)


def mistakes_in(experiment: Experiment) -> list[Mistake]:
    """Every mistake across the sections of an experiment that was changed after it was read."""
    return list(mistakes_of({name: getattr(experiment, name) for name in Experiment.model_fields}))


def with_benchmark(experiment: Experiment, changes: dict[str, Any]) -> Experiment:
    """The same experiment with other fields in its benchmark.

    Raises:
        BadInputError: they cannot go together with the rest of it.
    """
    changed = experiment.model_copy(update={"benchmark": experiment.benchmark.model_copy(update=changes)})
    mistakes = mistakes_in(changed)
    if mistakes:
        raise BadInputError("command line", mistakes)
    return changed


def _section(name: str, value: Any) -> tuple[list[Mistake], Any]:
    """The mistakes in one section, and the section; with the wrong fields left at their defaults where that
    is possible.

    The valid fields of a section with a mistake still take part in the cross-checks, so that all mistakes are
    reported at once.
    """
    info = Experiment.model_fields[name]
    annotated: Any = Annotated[info.annotation, info]
    adapter: TypeAdapter[Any] = TypeAdapter(annotated)
    plain = json.loads(json.dumps(value, default=str))
    try:
        return [], adapter.validate_json(json.dumps(plain), strict=True)
    except ValidationError as error:
        mistakes = _mistakes(name, error)
        for item in error.errors():
            _drop(plain, item["loc"])
    try:
        return mistakes, adapter.validate_json(json.dumps(plain), strict=True)
    except ValidationError:
        return mistakes, None


def _drop(tree: Any, location: tuple[int | str, ...]) -> None:
    for part in location[:-1]:
        if isinstance(tree, list) and isinstance(part, int) and part < len(cast("list[Any]", tree)):
            tree = cast("list[Any]", tree)[part]
        elif isinstance(tree, dict):
            tree = cast("dict[str, Any]", tree).get(str(part))
        else:
            return
    if location and isinstance(tree, dict):
        cast("dict[str, Any]", tree).pop(str(location[-1]), None)


def _unknown(field: str, value: object, known: list[str]) -> Mistake:
    close = difflib.get_close_matches(field.rsplit(".", 1)[-1], known, n=1)
    remedy = f"Did you mean {close[0]!r}?" if close else f"Remove it; known here: {', '.join(sorted(known))}"
    return Mistake(field, value, "is not a field of the experiment", remedy)


def _mistakes(name: str, error: ValidationError) -> list[Mistake]:
    mistakes: list[Mistake] = []
    for item in error.errors():
        field = name + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"])
        context = item.get("ctx", {})
        match item["type"]:
            case "extra_forbidden":
                mistakes.append(_unknown(field, item["input"], _known_fields(name)))
            case "missing":
                mistakes.append(Mistake(field, None, "is missing", "Add it"))
            case "literal_error":
                mistakes.append(
                    Mistake(field, item["input"], "is not one of the choices", f"Use {context['expected']}")
                )
            case _:
                mistakes.append(
                    Mistake(
                        field, item["input"], item["msg"][0].lower() + item["msg"][1:], "Correct the value"
                    )
                )
    return mistakes


def _known_fields(name: str) -> list[str]:
    annotation: Any = Experiment.model_fields[name].annotation
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, Section):
            return list(candidate.model_fields)
    return []
