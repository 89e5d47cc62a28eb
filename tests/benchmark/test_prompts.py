from collections import Counter
from pathlib import Path

import pytest

from specdec.benchmark.prompts import SHIPPED, load, parse
from specdec.errors import BadInputError


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sets_have_cases_of_several_different_prompts(name: str) -> None:
    prompts = load(name)
    cases = Counter(prompt.test_case for prompt in prompts)
    assert len(cases) == (5 if name == "rehearsal" else 8)
    assert min(cases.values()) >= 3
    assert len({prompt.text for prompt in prompts}) == len(prompts)
    assert {prompt.prompt_class for prompt in prompts} <= {
        "structured",
        "code",
        "extraction",
        "long-form",
        "open",
        "multilingual",
    }
    # 424 tokens are left of the default length of 1024 beside 600 of output; no text here has a token per
    # byte.
    assert max(len(prompt.text.encode()) for prompt in prompts) < 1000


def test_published_cases_have_their_published_names() -> None:
    assert list(dict.fromkeys(prompt.test_case for prompt in load("published"))) == [
        "counting numbers from 1",
        "shakespeare",
        "a",
        "hello world",
        "the cat sat on the mat.",
        "Output valid JSON with fixed keys",
        "Write a simple Python function skeleton",
        "List numbers from one to twenty",
    ]


def test_own_jsonl(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(
        '{"prompt": "a"}\n\n{"prompt": "b", "id": "x", "test_case": "mails", "class": "letters", '
        '"system": "Be brief.", "output_tokens": 50, "temperature": 1}\n'
    )
    first, second = load("mine.jsonl", base=tmp_path)
    assert (first.id, first.test_case, first.prompt_class, first.text, first.temperature) == (
        "own-1",
        "own",
        "own",
        "a",
        None,
    )
    assert (
        second.id,
        second.test_case,
        second.prompt_class,
        second.system,
        second.output_tokens,
        second.temperature,
    ) == (
        "x",
        "mails",
        "letters",
        "Be brief.",
        50,
        1.0,
    )


def test_own_text(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("first prompt\n\n  second  \n")
    assert [(prompt.id, prompt.text) for prompt in load(str(tmp_path / "mine.txt"))] == [
        ("line-1", "first prompt"),
        ("line-3", "second"),
    ]


def test_all_mistakes_of_a_file_are_named_by_line() -> None:
    text = "\n".join(
        [
            '{"prompt": "fine", "id": "one"}',
            "not json",
            "[1]",
            '{"promt": "a"}',
            '{"prompt": ""}',
            '{"prompt": "a", "output_tokens": "many"}',
            '{"prompt": "a", "output_tokens": 1}',
            '{"prompt": "a", "temperature": 7}',
            '{"prompt": "a", "output_tokens": true}',
            '{"prompt": "again", "id": "one"}',
        ]
    )
    with pytest.raises(BadInputError) as caught:
        parse(text, source="mine.jsonl", json_lines=True)
    assert [mistake.field for mistake in caught.value.mistakes] == [
        "mine.jsonl:2",
        "mine.jsonl:3",
        "mine.jsonl:4 promt",
        "mine.jsonl:4 prompt",
        "mine.jsonl:5 prompt",
        "mine.jsonl:6 output_tokens",
        "mine.jsonl:7 output_tokens",
        "mine.jsonl:8 temperature",
        "mine.jsonl:9 output_tokens",
        "mine.jsonl:10",
    ]


@pytest.mark.parametrize("content", [None, b"", b"\n \n", b"\xff\xfe"])
def test_a_file_that_cannot_be_used(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "mine.txt").write_bytes(content)
    with pytest.raises(BadInputError, match=r"mine\.txt"):
        load("mine.txt", base=tmp_path)


def test_brackets_without_end_are_a_mistake_of_their_line() -> None:
    with pytest.raises(BadInputError, match=r"mine\.jsonl:1 = .* is not JSON"):
        parse("[" * 5000, source="mine.jsonl", json_lines=True)
