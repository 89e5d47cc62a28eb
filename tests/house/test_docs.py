"""What the pages say can be followed: links lead somewhere, commands parse, fields exist, errors are ours."""

import itertools
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from specdec.cli import cli
from specdec.errors import BadInputError
from specdec.experiment.reading import load, parse

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
INDEX = ROOT / "docs" / "README.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """The names that the common forges give to headings."""
    titles = re.findall(r"^#{1,6} (.+)$", FENCE.sub("", text_of(page)), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def links(page: Path) -> list[tuple[Path, str]]:
    """Where the relative links of a page lead: file and anchor."""
    targets = [link for link in LINK.findall(FENCE.sub("", text_of(page))) if "://" not in link]
    pairs = [target.partition("#") for target in targets]
    return [((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in pairs]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in links(page):
        assert path.exists(), f"{name_of(page)}: {path} does not exist"
        if anchor:
            assert anchor in anchors(path), f"{name_of(page)}: {path.name} has no heading #{anchor}"


def test_every_page_is_found_within_two_clicks_of_the_readme() -> None:
    first = {path for path, _ in links(ROOT / "README.md")}
    second = {path for page in first if page.suffix == ".md" for path, _ in links(page)}
    assert [name_of(page) for page in PAGES if page not in first | second | {ROOT / "README.md"}] == []


@pytest.mark.parametrize(
    ("page", "anchor"),
    [
        ("docs/report.md", "what-to-do-after-undecided"),
        ("docs/prompts.md", "add-a-test-case"),
        ("docs/clone.md", "add-a-region"),
    ],
)
def test_what_newcomers_look_for_is_one_click_away(page: str, anchor: str) -> None:
    assert (ROOT / page, anchor) in links(ROOT / "README.md")


def test_the_index_names_every_page() -> None:
    listed = {path for path, _ in links(INDEX)}
    assert [name_of(page) for page in (ROOT / "docs").glob("*.md") if page not in listed | {INDEX}] == []


def lines_of_commands(page: Path) -> Iterator[str]:
    """Everything on a page that calls the command line: lines of code blocks, and code in a sentence."""
    text = text_of(page)
    for _, language, block in FENCE.findall(text):
        if language in ("sh", "", "text"):
            yield from block.replace("\\\n", " ").splitlines()
    yield from re.findall(r"^    ((?:uv run )?specdec .+)$", text, re.MULTILINE)
    yield from (" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", FENCE.sub("", text)))


def calls(line: str) -> Iterator[list[str]]:
    """The words behind each ``specdec`` of a line, up to what ends a command in the shell."""
    ends = ("|", ">", "--", "&&", ";")
    inner = re.fullmatch(r"\w+=\$\((.*)\)", line.strip())
    line = inner[1] if inner else line
    try:
        words = shlex.split(line.replace(";", " ; "), comments=True)
    except ValueError:  # A piece of code in a sentence that is no line of a shell.
        return
    program = words.index("uv") + 2 if words[:2] == ["uv", "run"] else 0
    if words[program : program + 1] == ["specdec"]:
        yield list(itertools.takewhile(lambda word: word not in ends, words[program + 1 :]))
    if "--" in words:
        yield from calls(shlex.join(words[words.index("--") + 1 :]))


def examples() -> list[tuple[str, str]]:
    """Page and arguments of every call that is written out anywhere."""
    found = {
        (name_of(page), shlex.join(arguments))
        for page in PAGES
        for line in lines_of_commands(page)
        for arguments in calls(line)
        if arguments and arguments != ["…"]
    }
    return sorted(found)


def test_there_are_many_examples() -> None:
    assert len(examples()) > 60


def refusal(arguments: list[str]) -> str | None:
    """What the real command line has against these arguments; None where it takes them. Nothing is run."""
    command: click.Command = cli
    rest = arguments
    context = click.Context(cli, info_name="specdec")
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        below = command.get_command(context, rest[0])
        if below is None:
            return f"no command {rest[0]}"
        command, rest = below, rest[1:]
        context = click.Context(command, info_name=below.name, parent=context)
    if isinstance(command, click.Group) and not rest:
        return None
    try:
        command.make_context(context.info_name or "", rest, parent=context.parent)
    except click.exceptions.Exit:
        return None
    except click.MissingParameter as error:
        # A command that is only named in a sentence has no arguments at all.
        return None if not rest else error.format_message()
    except click.ClickException as error:
        return error.format_message()
    return None


@pytest.mark.parametrize(("page", "line"), examples())
def test_the_command_line_takes_every_example(page: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    arguments = shlex.split(line.replace("--dialect NAME", "--dialect vllm"))
    assert refusal(arguments) is None, f"{page}: specdec {line}"


def test_a_wrong_example_would_be_seen() -> None:
    assert refusal(["bench", "--targt", "x"]) is not None
    assert refusal(["reprot"]) == "no command reprot"
    assert refusal(["bench", "--target", "http://a", "--repeats", "many"]) is not None
    assert list(calls("uv run specdec golden -- specdec bench --target {url}")) == [
        ["golden"],
        ["bench", "--target", "{url}"],
    ]


def toml_blocks() -> list[tuple[str, str]]:
    return [
        (name_of(page), block)
        for page in PAGES
        for _, language, block in FENCE.findall(text_of(page))
        if language == "toml"
    ]


@pytest.mark.parametrize(("page", "block"), toml_blocks())
def test_blocks_of_an_experiment_have_fields_that_exist(page: str, block: str) -> None:
    try:
        parse(block)
    except BadInputError as error:
        unknown = [mistake for mistake in error.mistakes if "is not a field" in mistake.problem]
        assert unknown == [], page


def test_there_are_blocks_of_an_experiment() -> None:
    assert toml_blocks()


def fields_of_the_reference() -> set[str]:
    """Every field of docs/experiment.md as ``section.field``."""
    section, names = "", set[str]()
    for line in text_of(ROOT / "docs" / "experiment.md").splitlines():
        heading = re.match(r"#+ .*`\[+([\w.<>\"]+)\]+`", line)
        if heading:
            section = heading[1].split(".")[0]
            names.add(section)
        row = re.match(r"\| `(\w+)` \|", line)
        if row:
            names.add(f"{section}.{row[1]}" if section else row[1])
    return names


SECTIONS = "capacity|serving|benchmark|cluster|guards|store|cost|account|placement|objective"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_fields_that_are_named_exist(page: Path) -> None:
    known = fields_of_the_reference()
    assert {"serving.max_model_len", "placement.zone"} <= known
    for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text_of(page)):
        dotted = re.match(rf"({SECTIONS})\.(?:<?[\w-]+>?\.(?=\w+(?: |$)))?(\w+)(?: = .*)?$", code)
        if dotted and not code.endswith(".py"):
            field = f"{dotted[1]}.{dotted[2]}"
            assert field in known, f"{name_of(page)}: `{code}`"


def test_assignments_in_sentences_are_valid_toml() -> None:
    names = {field.split(".")[-1] for field in fields_of_the_reference()}
    found = 0
    for page in PAGES:
        for code, name in re.findall(r"(?<!`)`((?:[\w-]+\.)*(\w+) = [^`]+)`(?!`)", text_of(page)):
            if name in names:
                found += 1
                tomllib.loads(code)
    assert found > 10


def test_files_that_are_named_exist() -> None:
    named = re.compile(r"`((?:specdec|charts|stacks|constructs|scripts|tests|examples|docs)/[\w/.-]+\.\w+)`")
    places = [(name_of(page), path) for page in PAGES for path in named.findall(text_of(page))]
    assert len(places) > 20
    assert [(page, path) for page, path in places if not (ROOT / path).exists()] == []


def test_errors_that_are_looked_up_are_printed_somewhere() -> None:
    product = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("specdec", "charts", "stacks", "constructs")
        for path in (ROOT / folder).rglob("*.py")
    )
    # A message may be written in several pieces, one a line, and begin with a capital.
    joined = re.sub(r'"\s*\n\s*f?"', "", product).lower()
    foreign = {"externally managed environment"}
    rows = re.findall(r"^\| (.+?) \|", text_of(ROOT / "docs" / "troubleshooting.md"), re.MULTILINE)
    quoted = [code for row in rows for code in re.findall(r"`([^`]+)`", row) if " " in code]
    wanted = [code for code in quoted if not code.startswith(("specdec ", "cdk ")) and code not in foreign]
    assert len(wanted) > 20
    assert [code for code in wanted if code.lower() not in joined] == []


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.name)
def test_examples_load(path: Path) -> None:
    assert load(path).variants
