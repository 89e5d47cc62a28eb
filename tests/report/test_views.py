"""What a reader gets: one page that needs nothing else, Markdown that renders, text that fits a terminal."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from specdec.report import Written, terminal, write
from specdec.report.headline import headline
from specdec.report.parts import advice
from specdec.runs.record import RequestRecord
from tests.report.sample import CASES, RUN, Case, records, spoiled, write_run

VOID = {"meta", "br", "hr", "img", "link", "input"}


class _Page(HTMLParser):
    """Checks nesting and collects what accessibility rests on."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


@pytest.fixture(scope="module")
def html(written: Written) -> str:
    return written.html.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html: str) -> _Page:
    parsed = _Page()
    parsed.feed(html)
    return parsed


def test_same_run_same_bytes(tmp_path: Path, written: Written) -> None:
    elsewhere = write(write_run(tmp_path / "copied elsewhere", spoiled(records())))
    for name in ("html", "markdown", "numbers"):
        first: Path = getattr(written, name)
        assert getattr(elsewhere, name).read_bytes() == first.read_bytes()


def test_page_is_whole_and_names_are_unique(page: _Page) -> None:
    assert page.stack == []
    assert len(page.ids) == len(set(page.ids))


def test_page_asks_for_nothing(html: str, page: _Page) -> None:
    assert not [
        tag for tag, _ in page.tags if tag in {"script", "link", "iframe", "img", "object", "embed", "base"}
    ]
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
        if tag == "a":
            assert (attributes["href"] or "").removeprefix("#") in page.ids
    assert "@import" not in html
    assert "http" not in html.replace('xmlns="http://www.w3.org/2000/svg"', "").replace("http://qwen", "")
    assert not re.search(r"url\((?!#)", html)


def test_what_a_server_said_stays_text(html: str) -> None:
    assert "&lt;script&gt;smaller&lt;/script&gt; model" in html


def test_page_can_be_read_without_seeing_it(page: _Page) -> None:
    assert page.headings[0] == 1
    assert set(page.headings[1:]) == {2}
    pictures = [
        attributes for tag, attributes in page.tags if tag == "svg" and attributes["role"] != "presentation"
    ]
    assert len(pictures) >= 6
    assert all(picture["role"] == "img" for picture in pictures)
    for name in (part for picture in pictures for part in (picture["aria-labelledby"] or "").split()):
        assert name in page.ids
    heads = [attributes.get("scope") for tag, attributes in page.tags if tag == "th"]
    assert heads
    assert all(heads)
    scrolled = [
        attributes for tag, attributes in page.tags if attributes.get("role") == "region" and tag == "div"
    ]
    assert all(region["tabindex"] == "0" and region["aria-labelledby"] in page.ids for region in scrolled)
    assert ("html", {"lang": "en"}) in page.tags


CSS = Path(__file__).parents[2] / "specdec" / "report" / "templates" / "report.css"


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast(scheme: int) -> None:
    # WCAG 2.2: 4.5 to 1 for text (1.4.3), 3 to 1 for what a plot is drawn with (1.4.11).
    block = CSS.read_text(encoding="utf-8").split(":root {")[scheme + 1].split("}")[0]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    for text in ("ink", "muted", "accent", "good", "bad"):
        for ground in ("paper", "raised"):
            assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert _contrast(colours["warn-ink"], colours["warn"]) >= 4.5
    for line in ("v0", "v1", "v2", "v3", "v4"):
        assert _contrast(colours[line], colours["paper"]) >= 3, line


def test_headline_comes_first_everywhere(written: Written, html: str) -> None:
    top = headline(written.verdict)
    assert top.do == "Use speculation for structured, code and extraction prompts; leave it off for sonnet."
    assert html.index(f"<h1>{top.do}</h1>") < html.index(f'<p class="sure">{top.sure}</p>')
    assert html.index('<p class="sure">') < html.index("<table") < html.index("<tbody")
    assert written.markdown.read_text(encoding="utf-8").startswith(
        f"# {top.do}\n\n{top.sure}\n".replace("_", "")
    )
    words = " ".join(terminal.render(written.verdict).split())
    assert words.startswith(f"{top.do} {top.sure}")
    assert written.verdict.sentence in words


def test_a_decision_can_be_told_without_colour(html: str, written: Written) -> None:
    for cell in ("▲ helps", "▼ hurts", "? undecided", "does not count"):
        assert cell in html
        assert cell in written.markdown.read_text(encoding="utf-8")
    (plot,) = re.findall(r"<svg[^>]*speed-title.*?</svg>", html, re.DOTALL)
    assert re.search(r">3\.\d\dx ▲ helps</text>", plot)
    assert ">0.78x ? undecided</text>" in plot


def test_next_steps_have_commands(html: str) -> None:
    section = html.split('<section id="next"')[1].split("</section>")[0]
    assert "A rehearsal measures its own prompts" in section
    assert "Add prompts" not in section
    assert f'<code class="command">specdec tune {RUN}</code>' in section
    assert f"specdec report {RUN} NEW_RUN" in section


def test_prompts_that_nobody_would_add_are_not_asked_for(written: Written) -> None:
    (row, *_) = [row for row in written.verdict.comparisons if row.tpot is not None]
    assert row.tpot is not None
    rows = [
        replace(row, test_case=f"case-{more}", tpot=replace(row.tpot, more_prompts=more))
        for more in (3, 9, 400)
    ]
    assert advice._more(rows) == (  # pyright: ignore[reportPrivateUsage]
        "Add prompts to case-3, case-9: up to 9 more each would settle them. More prompts alone will not"
        " settle case-400 soon: the speeds are close, or noise is high. Use a quieter machine or longer"
        " answers."
    )


def test_undecided_test_cases_are_named_with_the_prompts_they_lack(tmp_path: Path) -> None:
    made = write(write_run(tmp_path / RUN, records(), environment={"machine": {"cores": 2}}))
    words = made.markdown.read_text(encoding="utf-8")
    assert re.search(r"Add prompts to [\w, -]*traduction: (up to )?\d+ more", words)


def test_fewer_prompts_than_tell_anything_are_never_suggested(written: Written) -> None:
    (row, *_) = [row for row in written.verdict.comparisons if row.tpot is not None]
    assert row.tpot is not None
    two = replace(row, test_case="case", tpot=replace(row.tpot, prompts=2, more_prompts=1))
    assert advice._more([two]) == "Add prompts to case: 2 more would settle it."  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({"engine": "llama.cpp", "emulated": {"AWS": "emulated"}}, "specdec rehearse --quick --keep"),
        ({"stack": "qwen3-specdec-us-east-2", "place": "benchmark pod"}, "specdec run"),
        (
            {"machine": {"cores": 2}},
            "specdec bench --target baseline=http://qwen-vllm.specdec.svc:8000"
            " --target speculative=http://qwen-sd-vllm.specdec.svc:8000 --prompts FILE …",
        ),
    ],
)
def test_the_run_is_repeated_as_it_was_made(
    tmp_path: Path, environment: dict[str, Any], command: str
) -> None:
    lines = records(cases=CASES[6:], tokens=30)
    made = write(write_run(tmp_path / RUN, lines, environment=environment))
    assert f"`{command}`" in made.markdown.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("alternate", "Variants alternate in 2 blocks"),
        ("concurrent", "Variants are measured at the same time"),
    ],
)
def test_the_schedule_is_the_runs_own(tmp_path: Path, schedule: str, words: str) -> None:
    environment = {"load": {"schedule": schedule}}
    lines = records(cases=CASES[:1], tokens=20)
    text = write(write_run(tmp_path / RUN, lines, environment=environment)).markdown.read_text(
        encoding="utf-8"
    )
    assert words in text
    assert ("alternate in" in text) == (schedule == "alternate")


def test_a_run_in_phases_shows_them_with_how_far_the_baseline_moved(tmp_path: Path) -> None:
    lines = [
        replace(line, phase=2 * line.repeat + (line.variant != "baseline"))
        for line in records(cases=CASES[:2], tokens=20)
        if line.variant == "baseline" or line.repeat == 0
    ]
    environment = {"load": {"schedule": "sequential"}}
    text = write(write_run(tmp_path / RUN, lines, environment=environment)).markdown.read_text(
        encoding="utf-8"
    )
    assert "served one after the other, in 3 phases" in text
    assert "paired by prompt and the phases of the baseline before and after" in text
    assert "| 2 | speculative |" in text
    assert "drift and chance cannot be told apart" in text


def test_intervals_are_called_what_they_are(written: Written, html: str) -> None:
    made = "the wider of moderated t and bootstrap over prompts"
    assert made in html
    assert "bootstrap interval" not in html
    assert f"interval, {made}" in written.numbers.read_text(encoding="utf-8")


def test_configuration_is_opened_on_demand(html: str) -> None:
    section = html.split('<section id="environment"')[1].split("</section>")[0]
    assert "<details><summary><h2" in section
    assert section.index("<details>") < section.index("<table")


def test_many_test_cases_are_folded_by_class(tmp_path: Path) -> None:
    cases = [Case(f"case-{n}", "code" if n % 3 else "open", 0.9, prompts=1) for n in range(70)]
    made = write(write_run(tmp_path / RUN, records(cases=cases, tokens=12, repeats=1)))
    html = made.html.read_text(encoding="utf-8")
    page = _Page()
    page.feed(html)
    assert len(page.ids) == len(set(page.ids))
    assert "<summary>Result by test case: open</summary>" in html
    assert "<summary>Result by test case: code, 1 to 40 of 46</summary>" in html
    assert "<summary>Result by test case: code, 41 to 46 of 46</summary>" in html
    opened = re.sub(r"<details>.*?</details>", "", html, flags=re.DOTALL)
    assert max((len(re.findall("<tr>", table)) for table in opened.split("<table")), default=0) <= 41
    text = made.markdown.read_text(encoding="utf-8")
    assert all(f"| case-{n} |" in text for n in range(70))
    assert text.count("<details>") == text.count("</details>") > 4
    assert "<summary>Pairs with the same text: rows 41 to 70 of 70</summary>" in text
    assert max(len(table.splitlines()) for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)) <= 42
    shown = terminal.render(made.verdict)
    assert "70 test cases are folded by class; report.html and report.md show each." in shown
    assert "case-1 " not in shown
    assert [line.split()[1] for line in shown.splitlines() if line.split()[:1] in (["code"], ["open"])] == [
        "24",
        "46",
    ]
    unfinished = replace(made.verdict, status="interrupted")
    assert re.search(r"open +speculative +24 +24 +0\n", terminal.render(unfinished))
    few = replace(
        made.verdict, test_cases=made.verdict.test_cases[:40], comparisons=made.verdict.comparisons[:40]
    )
    assert "case-1 " in terminal.render(few)


def test_markdown_tables_are_whole(written: Written) -> None:
    text = written.markdown.read_text(encoding="utf-8")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) > 6
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table
    assert "<script>" not in re.sub(r"`[^`]*`", "", text)


def test_failures_are_shown_in_every_view(written: Written, html: str) -> None:
    assert "no token within 30 s" in html
    assert "no token within 30 s" in written.markdown.read_text(encoding="utf-8")
    assert "2 requests failed" in terminal.render(written.verdict)


def test_emulation_is_said_at_the_top(html: str) -> None:
    assert html.index("simulated step times") < html.index("<main>")


def test_emulated_parts_are_named_at_the_top_and_explained_below(tmp_path: Path) -> None:
    emulated = {
        "AWS": "an emulator took the stack",
        "engine, 1": "a CPU.",
        "engine, 2": "One request in flight.",
    }
    made = write(
        write_run(tmp_path / RUN, records(cases=CASES[:1], tokens=20), environment={"emulated": emulated})
    )
    text = made.markdown.read_text(encoding="utf-8")
    assert "> Not all of this is real: AWS, engine. What this cannot show, below, says how.\n" in text
    assert "- Not real: engine. One request in flight.\n" in text


def test_terminal_fits_and_is_plain(written: Written) -> None:
    text = terminal.render(written.verdict)
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    assert all(case.name in text for case in CASES)
    row = next(line for line in text.splitlines() if line.startswith("repeat-line"))
    assert row.split()[-1] == "helps"


def test_terminal_in_colour_says_the_same(written: Written) -> None:
    coloured = terminal.render(written.verdict, colour=True)
    assert "\x1b[" in coloured
    plain = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert plain.split() == terminal.render(written.verdict).split()


def test_several_speculative_variants_are_told_apart(tmp_path: Path) -> None:
    lines = records(cases=CASES[:3], tokens=40, speculative=("window-4", "window-7"))
    made = write(write_run(tmp_path / RUN, lines))
    for text in (
        made.html.read_text(encoding="utf-8"),
        made.markdown.read_text(encoding="utf-8"),
        terminal.render(made.verdict),
    ):
        assert "window-4" in text
        assert "window-7" in text
    assert max(map(len, terminal.render(made.verdict).splitlines())) <= 100


@pytest.mark.parametrize(("status", "ended"), [("interrupted", "was interrupted"), ("failed", "failed")])
def test_run_that_did_not_complete_has_no_verdict(tmp_path: Path, status: str, ended: str) -> None:
    made = write(write_run(tmp_path / RUN, records(cases=CASES[:3], tokens=30, repeats=1), status=status))
    text = made.html.read_text(encoding="utf-8")
    assert f"This run is not finished: it {ended}. It has numbers, but no verdict." in text
    assert "Speed-up" not in text
    assert "helps" not in text
    assert "45." in text, "what it measured is shown"
    assert f"it {ended}. It has numbers" in terminal.render(made.verdict)
    assert "helps" not in terminal.render(made.verdict)


def test_run_with_nothing_measured(tmp_path: Path) -> None:
    whole = records(cases=CASES[:1], tokens=10, repeats=1)
    made = write(write_run(tmp_path / RUN, [_refused(line) for line in whole], status="failed"))
    assert "no verdict" in made.markdown.read_text(encoding="utf-8")
    assert "connection refused" in made.html.read_text(encoding="utf-8")


def _refused(line: RequestRecord) -> RequestRecord:
    return replace(
        line,
        outcome="refused",
        error="connection refused",
        chunk_times=(),
        chunk_tokens=None,
        output_tokens=None,
        closed=None,
    )


def test_a_large_test_case_takes_no_more_time_than_its_records(tmp_path: Path) -> None:
    # One case of 500 prompts took seven seconds once, most of it in a table as wide as there are prompts.
    lines = records(cases=[Case("numbers", "structured", 0.9, prompts=500)], tokens=20)
    folder = write_run(tmp_path / RUN, lines)
    started = time.process_time()
    made = write(folder)
    assert time.process_time() - started < 3.5
    assert made.html.stat().st_size < 300_000
