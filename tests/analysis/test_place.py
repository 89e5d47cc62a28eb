"""Two addresses of one server are one place."""

import pytest

from specdec.benchmark.plan import Plan, Target
from specdec.commands.bench_plan import say_of_one_server
from specdec.prompts.sets import Prompt
from specdec.runs.place import place


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8001",
        "http://127.0.0.1:8001/v1",
        "http://[::1]:8001/v1/chat/completions",
        "http://127.0.0.1:8001/",
    ],
)
def test_one_server(url: str) -> None:
    assert place(url) == place("http://127.0.0.1:8001")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8002", "http://127.0.0.1:8001/window-7/v1", "http://10.0.0.1:8001", "http://a"]
)
def test_another_server(url: str) -> None:
    assert place(url) != place("http://127.0.0.1:8001")


def test_a_port_that_goes_without_saying() -> None:
    assert place("https://a/v1") == place("https://a:443")
    assert place("http://a") == place("http://a:80/v1") != place("https://a")


@pytest.mark.parametrize(
    ("other", "said"), [("http://localhost:8001", True), ("http://localhost:8002", False)]
)
def test_bench_says_before_a_request_that_two_names_are_one_server(
    other: str, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = (
        Target(variant="plain", url="http://127.0.0.1:8001", role="baseline"),
        Target(variant="drafted", url=other, role="speculative"),
    )
    prompts = (Prompt(id="p", test_case="case", prompt_class="open", text="Name a river."),)
    say_of_one_server(
        Plan(
            run="r",
            experiment="bench",
            configuration={},
            configuration_hash="",
            targets=targets,
            prompts=prompts,
        )
    )
    assert ("plain and drafted are one server" in capsys.readouterr().err) is said
