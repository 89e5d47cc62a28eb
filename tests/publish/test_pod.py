"""What the pod fetches, and what its requirement lists allow."""

from __future__ import annotations

import io
import random
import re
import subprocess
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specdec.benchmark.course import RunEvent
from specdec.benchmark.plan import Plan
from specdec.errors import SpecdecError
from specdec.experiment.reading import load
from specdec.llmperf import results
from specdec.pod import benchmark, sources
from specdec.pod.settings import Settings
from specdec.rejoin import store
from specdec.runs.manifest import RunManifest
from specdec.runs.progress import newest
from tests.benchmark.sampler import serving, word
from tests.publish.runs import record
from tests.publish.test_datums import manifest

ROOT = Path(__file__).parents[2]
LISTS = ("exact.txt", "llmperf.txt")


def source_tree(folder: Path) -> str:
    """A small tree with what can go wrong in a tree id, and git's own id of it."""
    folder.mkdir()
    for name, text in {
        "a.txt": "a",
        "a/b.txt": "b",
        "a-c": "c",
        "run.sh": "#!/bin/sh\n",
        "ä.md": "umlaut",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("a.txt")
    git = ["git", "-C", str(folder), "-c", "init.defaultBranch=main", "-c", "core.fileMode=true"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    tree = subprocess.run([*git, "write-tree"], check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run(["rm", "-rf", str(folder / ".git")], check=True)
    return tree


def archive(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(folder, arcname="llmperf-commit")
    return buffer.getvalue()


def test_the_tree_id_is_gits(tmp_path: Path) -> None:
    assert source_tree(tmp_path / "x") == sources.git_tree(tmp_path / "x")


def test_an_archive_of_other_content_is_refused(tmp_path: Path) -> None:
    tree = source_tree(tmp_path / "x")
    assert (
        sources.llmperf(tmp_path / "good", get=lambda url: archive(tmp_path / "x"), tree=tree).name
        == "llmperf-commit"
    )
    (tmp_path / "x" / "a.txt").write_text("changed", encoding="utf-8")
    with pytest.raises(SpecdecError, match=f"{tree} was expected"):
        sources.llmperf(tmp_path / "bad", get=lambda url: archive(tmp_path / "x"), tree=tree)


@pytest.fixture(params=["as it is", "as in Python 3.11.0 to 3.11.3"])
def filters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "as it is":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
        for name in ("extract", "extractall"):
            method = getattr(tarfile.TarFile, name)

            def without_filters(*arguments: object, method: Callable[..., None] = method) -> None:
                method(*arguments)

            monkeypatch.setattr(tarfile.TarFile, name, without_filters)


# A newer Python warns of what the older ones do.
@pytest.mark.filterwarnings("ignore:Python 3.14 will:DeprecationWarning")
@pytest.mark.usefixtures("filters")
def test_an_archive_unpacks_alike_with_and_without_filters(tmp_path: Path) -> None:
    tree = source_tree(tmp_path / "x")
    assert sources.llmperf(tmp_path / "to", get=lambda url: archive(tmp_path / "x"), tree=tree).is_dir()


@pytest.mark.usefixtures("filters")
@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("../out", tarfile.REGTYPE, ""),
        ("a/../../out", tarfile.REGTYPE, ""),
        ("link", tarfile.SYMTYPE, "../../out"),
        ("link", tarfile.SYMTYPE, "/etc/passwd"),
        ("hard", tarfile.LNKTYPE, "../out"),
        ("pipe", tarfile.FIFOTYPE, ""),
        ("disk", tarfile.BLKTYPE, ""),
    ],
)
def test_an_archive_that_reaches_out_of_its_folder_is_refused(
    name: str, kind: bytes, link: str, tmp_path: Path
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, link
        tar.addfile(member, io.BytesIO())
    with pytest.raises(SpecdecError, match="cannot be unpacked"):
        sources.llmperf(tmp_path / "to", get=lambda url: buffer.getvalue())
    assert not (tmp_path / "out").exists()


def test_mirrors_are_asked_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = source_tree(tmp_path / "x")
    asked: list[str] = []

    def get(address: str) -> bytes:
        asked.append(address)
        return archive(tmp_path / "x")

    monkeypatch.setenv("LLMPERF_SOURCE", "https://mirror/llmperf.tar.gz")
    monkeypatch.setenv("LLMPERF_TOKENIZER", "https://mirror/tokenizer/")
    sources.llmperf(tmp_path / "to", get=get, tree=tree)
    sources.tokenizer(tmp_path / "tokenizer", get=get)
    assert asked == [
        "https://mirror/llmperf.tar.gz",
        *(f"https://mirror/tokenizer/{name}" for name in sources.TOKENIZER_FILES),
    ]


def test_everything_fetched_is_pinned_by_commit() -> None:
    assert results.COMMIT in sources.ARCHIVE
    assert re.fullmatch(r"[0-9a-f]{40}", sources.TOKENIZER_REVISION)
    assert sources.TOKENIZER_REVISION in sources.TOKENIZER_BASE


@pytest.mark.parametrize("name", LISTS)
def test_every_requirement_is_exact_and_hashed_and_no_index_is_named(name: str) -> None:
    text = (ROOT / "charts" / "pod" / name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines
    for line in lines:
        assert re.fullmatch(r"[a-z0-9._-]+==\S+( --hash=sha256:[0-9a-f]{64})+", line), line
    assert "://" not in text


@pytest.mark.parametrize("name", LISTS)
def test_the_pod_runs_the_versions_that_the_tests_ran(name: str) -> None:
    pins: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"][
        "constraint-dependencies"
    ]
    ours = dict(
        line.split(" ;")[0].split(";")[0].strip().split("==")
        for line in pins
        if line.count("==") and "," not in line.split(";")[0]
    )
    listed = dict(
        line.split(" ")[0].split("==")
        for line in (ROOT / "charts" / "pod" / name).read_text().splitlines()
        if not line.startswith("#")
    )
    shared = ours.keys() & listed.keys()
    assert {"boto3", "botocore", "pydantic"} & shared
    assert {package: listed[package] for package in shared} == {
        package: ours[package] for package in shared
    }, "run scripts/lock_pod.py"


def test_the_requirement_lists_hold_what_their_sources_ask_for() -> None:
    for name in LISTS:
        asked = (
            (ROOT / "scripts" / "pod_requirements" / name.replace(".txt", ".in"))
            .read_text(encoding="utf-8")
            .splitlines()
        )
        listed = (ROOT / "charts" / "pod" / name).read_text(encoding="utf-8")
        for package in asked:
            assert package.startswith("#") or f"\n{package}==" in listed


def test_a_failed_llmperf_lane_is_told_and_takes_nothing_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = load(ROOT / "experiment.toml")
    assert set(experiment.benchmark.lanes) == {"exact", "llmperf"}
    measured = manifest()

    def exact_lane(
        plan: Plan, folder: Path, *, on_event: Callable[[RunEvent], None], **_: object
    ) -> RunManifest:
        on_event(RunEvent("baseline json", 1, 9, record(plan.targets[0].variant)))
        return measured

    monkeypatch.setattr("specdec.benchmark.run.run", exact_lane)
    settings = Settings(
        experiment=experiment,
        services={variant.name: "http://127.0.0.1:9" for variant in experiment.variants},
        bucket="b",
        region="us-east-2",
        stack="s",
        cluster="s",
        wait_seconds=1.0,
        work=tmp_path,
        llmperf_python=None,
    )
    run = "20261206T180000Z-0b8c11"
    benchmark._measure_lanes(settings, run, tmp_path, {})  # pyright: ignore[reportPrivateUsage]
    kept = RunManifest.from_json((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    assert kept.status == measured.status == "complete"
    assert kept.environment["llmperf"].startswith("failed: the llmperf lane is asked for")
    # What the pod prints is what `specdec wait` looks for.
    progress = newest(capsys.readouterr().out.splitlines())
    assert progress is not None
    assert progress.run == run
    assert progress.words.startswith("1/9, baseline json; TPOT baseline ")


def greedy(other_after: int | None = None) -> Callable[[dict[str, Any]], str]:
    """A server that goes on from what it is given, each word following from the last; after so many words of
    an answer one is another.
    """

    def answer(body: dict[str, Any]) -> str:
        last = body["messages"][-1]
        said = last["content"] if last["role"] == "assistant" else ""
        begun = len(said)
        for number in range(body["max_tokens"]):
            said += " wrong" if number == other_after else word(said, 0.0, random.Random(0))
        return said[begun:]

    return answer


@pytest.mark.slow
@pytest.mark.parametrize("other_after", [None, 3])
def test_texts_are_followed_after_the_run(
    other_after: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.txt").write_text("one\ntwo\n", encoding="utf-8")
    shipped = load(ROOT / "experiment.toml")
    changes = {
        "prompts": "p.txt",
        "lanes": ("exact",),
        "repeats": 1,
        "output_tokens": 8,
        "concurrency": 1,
        "warmup": 0,
        "self_check": 0.0,
    }
    few = shipped.benchmark.model_copy(update=changes)
    experiment = shipped.model_copy(update={"benchmark": few})
    folder = tmp_path / "run"
    with serving(greedy()) as (one, _), serving(greedy(other_after)) as (other, _):
        settings = Settings(
            experiment=experiment,
            services=dict(zip(("baseline", "speculative"), (one, other), strict=True)),
            bucket="b",
            region="us-east-2",
            stack="s",
            cluster="s",
            wait_seconds=1.0,
            work=tmp_path,
            llmperf_python=None,
        )
        benchmark._measure_lanes(settings, "20261206T180000Z-0b8c11", folder, {})  # pyright: ignore[reportPrivateUsage]
    said = capsys.readouterr().out
    followed = store.read(folder)
    if other_after is None:
        assert not followed
        assert "no texts to check" in said
        return
    assert "2 of 2 texts that part were followed" in said
    walks = [each.walk for each in followed if each.variant == "speculative"]
    assert [walk.tokens for walk in walks] == [8, 8]
    assert all(walk.swaps[0].other == " wrong" for walk in walks)
    # Servers that are gone take nothing from the run.
    plan = benchmark._plan(settings, "20261206T180000Z-0b8c11")  # pyright: ignore[reportPrivateUsage]
    benchmark._check_texts(plan, folder)  # pyright: ignore[reportPrivateUsage]
    assert "error: the texts are not checked" in capsys.readouterr().out
    kept = RunManifest.from_json((folder / "manifest.json").read_text(encoding="utf-8"))
    assert kept.status == "complete"
