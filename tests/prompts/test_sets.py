import json
from collections import Counter
from pathlib import Path

import pytest

from scripts.hostile_command import specdec
from specdec.errors import BadInputError
from specdec.prompts.long import CHARACTERS_PER_TOKEN, LENGTHS
from specdec.prompts.sets import SHIPPED, load, parse


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "long"])
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


def test_long_prompts_come_in_two_classes_of_three_lengths_and_are_always_the_same() -> None:
    prompts = load("long")
    assert prompts == load("long")
    assert len({prompt.text for prompt in prompts}) == len(prompts)
    cases = Counter(prompt.test_case for prompt in prompts)
    assert set(cases.values()) == {6}
    for name, prompt_class in (("log", "structured"), ("diary", "open")):
        sizes: list[int] = []
        for length in LENGTHS:
            own = [prompt for prompt in prompts if prompt.test_case == f"{name}-{length}"]
            assert {prompt.prompt_class for prompt in own} == {prompt_class}
            wanted = length * CHARACTERS_PER_TOKEN[prompt_class]
            assert all(prompt.characters == pytest.approx(wanted, rel=0.15) for prompt in own)
            sizes.append(own[0].characters)
        assert sizes == sorted(sizes)


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
        parse(text, source="mine.jsonl")
    assert [mistake.field for mistake in caught.value.mistakes] == [
        "mine.jsonl:2",
        "mine.jsonl:3",
        "mine.jsonl:4 prompt",
        "mine.jsonl:4 promt",
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
        parse("[" * 5000, source="mine.jsonl")


CONVERSATION = {
    "conversations": [
        {"from": "system", "value": "Be brief."},
        {"from": "human", "value": "Name a river."},
        {"from": "gpt", "value": "The Elbe."},
        {"from": "human", "value": "And a lake."},
        {"from": "gpt", "value": "Lake Constance."},
    ]
}
MESSAGES = {
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Name a river."}]},
        {"role": "assistant", "content": "The Elbe."},
        {"role": "user", "content": "And a lake."},
    ],
    "max_tokens": 40,
}
SAID = [
    ("system", "Be brief."),
    ("user", "Name a river."),
    ("assistant", "The Elbe."),
    ("user", "And a lake."),
]


def batch(body: object, **more: object) -> dict[str, object]:
    return {"custom_id": "r-1", "method": "POST", "url": "/v1/chat/completions", "body": body, **more}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sharegpt.json", json.dumps([CONVERSATION])),
        ("sharegpt.JSON", json.dumps([CONVERSATION], indent=2)),
        ("sharegpt.txt", json.dumps([CONVERSATION], indent=2)),
        ("sharegpt", json.dumps(CONVERSATION)),
        ("one.json", json.dumps(CONVERSATION, indent=4)),
        ("kept.json", json.dumps({"version": 2, "data": [CONVERSATION]})),
        ("chat.jsonl", json.dumps(MESSAGES)),
        ("chat.NDJSON", json.dumps(MESSAGES) + "\r\n"),
        ("chat.log", json.dumps(MESSAGES) + "\n"),
        ("lines.json", json.dumps(MESSAGES) + "\n" + json.dumps(MESSAGES)),
        ("batch.jsonl", json.dumps(batch(MESSAGES | {"model": "m", "stream": True}))),
    ],
)
def test_conversations_are_sent_up_to_what_the_user_says_last(
    name: str, content: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("\ufeff" + content)
    (prompt,) = load(name, base=tmp_path)
    assert [(turn.role, turn.content) for turn in prompt.conversation] == SAID
    if "MESSAGES" in content or "max_tokens" in content:
        assert prompt.output_tokens == 40


@pytest.mark.parametrize(
    ("entry", "text", "fields"),
    [
        ({"text": "a"}, "a", {}),
        ({"input": "a", "max_tokens": 9}, "a", {"output_tokens": 9}),
        ({"question": "a", "max_completion_tokens": 8}, "a", {"output_tokens": 8}),
        ({"prompt": "a", "max_new_tokens": 7, "completion": "b"}, "a", {"output_tokens": 7}),
        ({"instruction": "a", "input": "b", "output": "c"}, "a\n\nb", {}),
        ({"instruction": "a", "input": "", "output": "c"}, "a", {}),
        (
            {"question_id": 81, "category": "writing", "turns": ["a", "b"]},
            "a",
            {"id": "81", "test_case": "writing"},
        ),
        (batch({"prompt": "a", "max_tokens": 5, "model": "m"}, url="/v1/completions"), "a", {"id": "r-1"}),
    ],
)
def test_usual_names_of_fields(entry: dict[str, object], text: str, fields: dict[str, object]) -> None:
    (prompt,) = parse(json.dumps(entry), source="a.jsonl")
    assert prompt.text == text
    assert {name: getattr(prompt, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("a.csv", 'prompt,class\n"Name a river,\nand a lake.",open\n', None),
        ("a.CSV", 'class;prompt\r\nopen;"Name a river,\nand a lake."\r\n', None),
        ("a.tsv", 'Prompt\tClass\n"Name a river,\nand a lake."\topen\n', None),
        ("a.txt", 'prompt,class\n"Name a river,\nand a lake.",open\n', None),
        ("a.csv", 'Body,Sent,class\n"Name a river,\nand a lake.",2026,open\n', "Body"),
    ],
)
def test_rows_of_a_table(name: str, content: str, column: str | None, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
    (prompt,) = load(name, base=tmp_path, column=column)
    assert (prompt.text, prompt.prompt_class) == ("Name a river,\nand a lake.", "open")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt", "Name a river.\r\nName a lake.\r\n"), ("a.jsonl", '{"prompt": "Name a river."}\r\n')],
)
def test_a_byte_order_mark_is_no_part_of_a_prompt(
    name: str, content: str, encoding: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content.encode(encoding))
    assert load(name, base=tmp_path)[0].text == "Name a river."
    (tmp_path / name).write_bytes((content + "\ufeff" + content.replace("river", "sea")).encode())
    assert not [prompt for prompt in load(name, base=tmp_path) if "\ufeff" in prompt.text]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.txt", '[\n  {"conversations": [\n', "begins like JSON"),
        ("a.txt", '{"prompt": "x",\n "id": }', "begins like JSON"),
        ("a.json", "[{", "not JSON"),
        ("a.json", "3", "not a list of prompts"),
        ("a.json", "[]", "no prompt in it"),
        ("a.csv", "a,b\n1,2\n", "--prompt-column: a, b"),
        ("a.csv", "prompt,id\nx\n", "has 1 cells, and the heading has 2"),
        ("a.csv", "prompt,id\nx\ny,1\nz,2,3\n", "a.csv:4"),
        ("a.csv", 'prompt\n"x', "is not CSV"),
        ("a.csv", "prompt,output_tokens\nx,many\n", "whole number"),
        ("a.csv", "prompt,temperature\nx,nan\n", "not within 0 and 2"),
        ("a.parquet", "PAR1", "binary table"),
        ("a.md", "# Title", "document"),
        ("a.YAML", "a: 1", "configuration"),
        ("a.jsonl", '{"prompt": "x", "temperature": NaN}', "not a JSON number"),
        ("a.jsonl", '{"prompt": "x", "temperature": 1e999}', "not within 0 and 2"),
        ("a.jsonl", '{"prompt": "x", "output_tokens": ' + "9" * 4000 + "}", "not within 2"),
        ("a.jsonl", '{"prompt": "x\\ud800"}', "half of a character"),
        ("a.jsonl", '{"prompt": "x", "id": "a\\nb"}', "line breaks"),
        ("a.jsonl", '{"prompt": "x", "test_case": "\\u001b[2J"}', "controls"),
        ("a.jsonl", '{"prompt": "x", "class": " "}', "not a name"),
        ("a.jsonl", '{"prompt": " \\n"}', "is empty or not a text"),
        ("a.jsonl", '{"prompt": "x", "text": "y"}', "beside prompt"),
        ("a.jsonl", '{"messages": [{"role": "assistant", "content": "x"}]}', "nothing that a user says"),
        ("a.jsonl", '{"messages": [{"role": "tool", "content": "x"}]}', "not a message of"),
        ("a.jsonl", '{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', "more than text"),
        (
            "a.jsonl",
            '{"messages": [{"role": "user", "content": "x"}], "top_p": 0.5}',
            "changes what is generated",
        ),
        ("a.jsonl", json.dumps(batch({"input": "x"}, url="/v1/embeddings")), "not a request for text"),
        ("a.jsonl", json.dumps(batch({"messages": [], "stop": "x"})), "body.stop"),
    ],
)
def test_what_is_no_prompt_is_refused_and_never_sent(
    name: str, content: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BadInputError) as caught:
        load(name, base=tmp_path)
    assert words in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_equal_prompts_are_one_prompt_however_often_they_are_listed() -> None:
    same = "Count to ten.\n" * 3 + " Count to ten. \r\n" * 3
    assert [(prompt.text, prompt.listed) for prompt in parse(same, source="a.txt")] == [("Count to ten.", 6)]
    lines = "\n".join(json.dumps({"prompt": "x", "id": str(number)}) for number in range(4))
    assert [(prompt.id, prompt.listed) for prompt in parse(lines, source="a.jsonl")] == [("0", 4)]
    apart = '{"prompt": "x", "system": "a"}\n{"prompt": "x"}\n{"prompt": "x", "test_case": "t"}'
    assert len(parse(apart, source="a.jsonl")) == 3


def test_equal_text_of_other_lengths_is_not_two_prompts_of_a_test_case() -> None:
    lines = '{"prompt": "x", "output_tokens": 5}\n{"prompt": "x", "output_tokens": 6}'
    with pytest.raises(BadInputError, match="separate test cases"):
        parse(lines, source="a.jsonl")


def test_twenty_of_many_mistakes_are_printed() -> None:
    with pytest.raises(BadInputError) as caught:
        parse("x\n" * 500, source="a.jsonl")
    assert len(caught.value.mistakes) == 500
    assert len(str(caught.value).splitlines()) == 22
    assert str(caught.value).endswith("and 480 more")


def test_a_misspelt_field_is_told_what_it_may_have_been() -> None:
    with pytest.raises(
        BadInputError, match=r"testcase.* is not a field of a prompt\. Did you mean 'test_case'"
    ):
        parse('{"prompt": "List rivers.", "testcase": "lists"}', source="mine.jsonl")


@pytest.mark.parametrize("name", [*SHIPPED, "synthetic:input=40,output=8,count=3", "own.jsonl"])
def test_a_set_is_printed_as_it_can_be_read_again(name: str, tmp_path: Path) -> None:
    roles = ("system", "user", "assistant", "user")
    turns = [{"role": role, "content": f"{role} \x1b\u2028é"} for role in roles]
    own = [{"messages": turns}, {"prompt": "x", "system": "y", "temperature": 0.5, "max_tokens": 9}]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, own)))
    done = specdec("prompts", name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert parse(done.stdout, source="again.jsonl") == load(name, base=tmp_path)


def test_shipped_sets_are_listed(tmp_path: Path) -> None:
    done = specdec("prompts", cwd=tmp_path)
    assert [name for name in SHIPPED if f"\n{name} " in done.stdout] == list(SHIPPED)
