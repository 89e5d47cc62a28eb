"""The report in a real browser: wide and phone, light, dark and printed."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Generator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from click.testing import CliRunner
from pypdf import PdfReader

from scripts.browser import Browser, find
from specdec.commands.forecast import command
from specdec.report import Written
from tests.forecast.test_forecast import LIST, STORY

pytestmark = pytest.mark.slow
SCREENS = [(1440, False), (1440, True), (390, False), (390, True)]

OUTSIDE = """
[...document.querySelectorAll("figure svg text")].filter(text => text.textContent).map(text => {
  const box = text.getBoundingClientRect(), room = text.ownerSVGElement.getBoundingClientRect();
  return {
    words: text.textContent,
    cut: box.width && (box.left < room.left - 1 || box.right > room.right + 1
      || box.top < room.top - 1 || box.bottom > room.bottom + 1),
    size: box.height,
  };
}).filter(found => found.cut || (found.size && found.size < 9))
"""
CUT = """
[...document.querySelectorAll("figure svg path, figure svg rect")].filter(mark => {
  const box = mark.getBoundingClientRect(), room = mark.ownerSVGElement.getBoundingClientRect();
  const clipped = mark.ownerSVGElement.getAttribute("role") === "presentation";
  return !clipped && box.width && (box.left < room.left - 1 || box.right > room.right + 1
    || box.top < room.top - 1 || box.bottom > room.bottom + 1);
}).map(mark => mark.outerHTML)
"""
WIDE = """
[...document.querySelectorAll(".scroll")].filter(region => region.scrollWidth > region.clientWidth + 1)
  .map(region => region.querySelector("caption").textContent)
"""
PAINT = """
[...document.querySelectorAll("figure svg text, figure svg path, figure svg rect")].map(mark => {
  const style = getComputedStyle(mark);
  return [style.fill, style.stroke];
})
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser]:
    program = find()
    if program is None:
        pytest.skip("NO BROWSER: the report was not looked at. Install chromium, or set SPECDEC_BROWSER")
    with Browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def forecast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a forecast with two drafts, four kinds of answers, money, and entries left out."""
    folder = tmp_path_factory.mktemp("forecast")
    log = folder / "answers.jsonl"
    entries = [
        {
            "id": f"{kind}-{'of-somebody-' * number}{number}",
            "test_case": kind,
            "prompt": "Go on.",
            "answer": answer,
        }
        for kind, answer in (("json", LIST), ("story", STORY), ("long kind of answers", LIST[:200] + STORY))
        for number in range(6)
    ]
    log.write_text("\n".join(map(json.dumps, [*entries, {"what": 1}])), encoding="utf-8")
    drafts = ("--draft", "ngram:3", "--draft", "ngram:2", "--experiment", "experiment.toml")
    arguments = [str(log), *drafts, "--out", str(folder)]
    assert CliRunner().invoke(command, arguments, standalone_mode=False).exception is None
    return folder / "forecast.html"


@pytest.fixture(params=SCREENS, ids=lambda screen: f"{screen[0]}-{'dark' if screen[1] else 'light'}")
def screen(browser: Browser, written: Written, request: pytest.FixtureRequest) -> tuple[Browser, int, bool]:
    width, dark = request.param
    browser.show(written.html.as_uri(), width=width, dark=dark)
    return browser, width, dark


def require_fit(browser: Browser, width: int, *, dark: bool) -> None:
    """Nothing of the page that is shown is cut, too small, or in a colour that it does not know."""
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    assert browser.ask(WIDE) == [], "tables that must be scrolled sideways"
    assert browser.ask(OUTSIDE) == [], "words of a picture that are cut or too small"
    assert browser.ask(CUT) == [], "marks of a picture that are cut"
    ground = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") != dark
    painted: list[list[str]] = browser.ask(PAINT)
    inks = {ink for pair in painted for ink in pair} - {"none"}
    assert len(inks) > 5
    assert "rgb(0, 0, 0)" not in inks, "a colour that the page does not know"
    assert ground not in inks


def test_every_screen(screen: tuple[Browser, int, bool]) -> None:
    browser, width, dark = screen
    require_fit(browser, width, dark=dark)


@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_every_screen_of_a_forecast(browser: Browser, forecast: Path, width: int, dark: bool) -> None:
    browser.show(forecast.as_uri(), width=width, dark=dark)
    require_fit(browser, width, dark=dark)
    assert browser.ask('document.querySelector("h1").textContent').startswith("Look-up of ")


def test_nothing_is_asked_of_a_network(screen: tuple[Browser, int, bool]) -> None:
    assert all(address.startswith("file:") for address in screen[0].requests)


def test_headline_takes_a_phone_no_more_than_half_a_screen(browser: Browser, written: Written) -> None:
    browser.show(written.html.as_uri(), width=390, height=844)
    assert browser.ask('document.querySelector(".sure").getBoundingClientRect().bottom') < 844 / 2


def test_window_plots_use_the_width(browser: Browser, written: Written) -> None:
    browser.show(written.html.as_uri(), width=1440)
    boxes: list[dict[str, Any]] = browser.ask(
        '[...document.querySelectorAll("#window .panels > svg")]'
        ".map(panel => panel.getBoundingClientRect().toJSON())"
    )
    page = browser.ask('document.querySelector("main").getBoundingClientRect().width')
    first_line = [box for box in boxes if box["top"] == boxes[0]["top"]]
    assert len(first_line) > 3
    assert first_line[-1]["right"] - first_line[0]["left"] > 0.9 * page


class _Heads(HTMLParser):
    """Collects what must not stand last on a printed page."""

    def __init__(self) -> None:
        super().__init__()
        self.heads: set[str] = set()
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag in ("h1", "h2", "caption", "figcaption")

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.heads.add(" ".join(data.split()))
        self._open = False


@pytest.mark.parametrize("page", ["report", "forecast"])
def test_print_keeps_heads_with_what_they_head(
    page: str, browser: Browser, written: Written, forecast: Path
) -> None:
    path = written.html if page == "report" else forecast
    browser.show(path.as_uri(), width=1000, media="")
    # A font joins "f" and "i" into one letter; NFKC parts them again.
    pages = [
        normalize("NFKC", page.extract_text()) for page in PdfReader(io.BytesIO(browser.printed())).pages
    ]
    assert 1 < len(pages) < 20
    found = _Heads()
    found.feed(path.read_text(encoding="utf-8"))
    everything = " ".join(" ".join(pages).split())
    assert {head for head in found.heads if head not in everything} == set(), "not printed at all"
    for number, printed in enumerate(pages, 1):
        last = [" ".join(line.split()) for line in printed.splitlines() if line.strip()][-1]
        assert not any(head.endswith(last) for head in found.heads), (
            f"page {number} ends with the head {last!r}"
        )
    if page == "report":
        assert re.search("Configuration, all defaults filled in", everything), "what is folded is printed"


def test_page_of_a_rehearsals_size_stays_small(written: Written) -> None:
    assert written.html.stat().st_size < 300_000


def test_picture_of_the_page_can_be_taken(browser: Browser, written: Written, tmp_path: Path) -> None:
    browser.show(written.html.as_uri(), width=390)
    browser.picture(tmp_path / "phone.png")
    assert (tmp_path / "phone.png").read_bytes().startswith(b"\x89PNG")
