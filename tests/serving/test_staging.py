"""The staging script, run as it is: complete, resumed, damaged, refused, and killed at every step."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.pod import Pod, Web, needs, serving, tree

pytestmark = pytest.mark.slow

MODEL = "Org/Model"
COMMIT = "a" * 40
PREFIX = f"models/{MODEL}/v1/"
FILES = {
    "config.json": b'{"a": 1}',
    "model-00001-of-00002.safetensors": b"w" * 5000,
    "model-00002-of-00002.safetensors": b"v" * 4000,
    "tokenizer.json": b"{}",
}
LARGE = {name for name in FILES if name.endswith("safetensors")}
UNUSED = {"README.md": b"# hi", ".gitattributes": b"*", "original/consolidated.00.pth": b"x" * 10}


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    needs("bash", "curl", "jq")
    return Pod(tmp_path)


@pytest.fixture
def hub() -> Iterator[Web]:
    web = Web()
    web.page(f"/api/models/{MODEL}/revision/v1", {"sha": COMMIT})
    web.page(f"/api/models/{MODEL}/tree/{COMMIT}?recursive=true", tree(FILES | UNUSED, LARGE))
    for path, content in FILES.items():
        web.page(f"/{MODEL}/resolve/{COMMIT}/{path}", content)
    with serving(web):
        yield web


def environment(pod: Pod, hub: Web, **more: str) -> dict[str, str]:
    return {
        "BUCKET": "bucket",
        "HF_TOKEN_SECRET": "",
        "HUB": hub.url,
        "MODEL": MODEL,
        "MODEL_MARKER": ".complete.json",
        "PREFIX": PREFIX,
        "REVISION": "v1",
        "SCRATCH": str(pod.disk),
        **more,
    }


WHOLE = {PREFIX + path for path in FILES} | {PREFIX + ".complete.json"}


def test_a_model_arrives_whole_and_its_marker_names_what_it_is(pod: Pod, hub: Web) -> None:
    code, output = pod.run("stage.sh", **environment(pod, hub))
    assert code == 0, output
    assert pod.objects() == WHOLE
    marker = json.loads(pod.read(PREFIX + ".complete.json"))
    assert (marker["model"], marker["revision"], marker["commit"]) == (MODEL, "v1", COMMIT)
    assert [file["path"] for file in marker["files"]] == list(FILES)
    assert "Authorization" not in hub.headers[0]


def test_a_complete_model_is_not_fetched_again(pod: Pod, hub: Web) -> None:
    pod.run("stage.sh", **environment(pod, hub))
    hub.seen.clear()
    code, output = pod.run("stage.sh", **environment(pod, hub))
    assert code == 0
    assert "is complete" in output
    assert hub.seen == []


def test_a_second_run_fetches_only_what_is_missing(pod: Pod, hub: Web) -> None:
    pod.run("stage.sh", **environment(pod, hub))
    for path in (".complete.json", "tokenizer.json"):
        (pod.bucket / PREFIX / path).unlink()
    hub.seen.clear()
    code, output = pod.run("stage.sh", **environment(pod, hub))
    assert code == 0, output
    assert [page for page in hub.seen if "/resolve/" in page] == [f"/{MODEL}/resolve/{COMMIT}/tokenizer.json"]
    assert pod.objects() == WHOLE


LIST = f"/api/models/{MODEL}/tree/{COMMIT}?recursive=true"


@pytest.mark.parametrize(
    ("size", "header", "value"),
    [
        (1, "Link", '<{url}{page}>; rel="next"'),
        (2, "link", "<{page}>; rel=next"),
        (3, "LINK", '<{url}{first}>; rel="first", <{url}{page}>; rel="next"'),
        (2, "Link", '<https://hub.example{page}>; rel="next"'),
    ],
)
def test_every_page_of_the_list_is_followed(pod: Pod, hub: Web, size: int, header: str, value: str) -> None:
    paged(hub, size, header, value)
    code, output = pod.run("stage.sh", **environment(pod, hub))
    assert code == 0, output
    assert pod.objects() == WHOLE
    assert [file["path"] for file in json.loads(pod.read(PREFIX + ".complete.json"))["files"]] == list(FILES)


def paged(hub: Web, size: int, header: str = "Link", value: str = '<{page}>; rel="next"') -> list[str]:
    names = list(FILES)
    pages = [LIST if start == 0 else f"{LIST}&cursor=c%3D{start}" for start in range(0, len(names), size)]
    for index, page in enumerate(pages):
        hub.page(page, tree({name: FILES[name] for name in names[index * size : (index + 1) * size]}, LARGE))
        if index + 1 < len(pages):
            link = value.format(url=hub.url, page=pages[index + 1], first=LIST)
            hub.more[page] = {header: link}
    return pages


def test_a_page_that_cannot_be_had_leaves_no_marker(pod: Pod, hub: Web) -> None:
    pages = paged(hub, 2)
    hub.page(pages[-1], b"gone", status=404)
    code, output = pod.run("stage.sh", **environment(pod, hub))
    assert (code, pod.objects()) == (1, set())
    assert "cannot be listed" in output


def test_a_page_that_is_no_list_leaves_no_marker(pod: Pod, hub: Web) -> None:
    pages = paged(hub, 2)
    hub.page(pages[-1], {"error": "busy"})
    code, _ = pod.run("stage.sh", **environment(pod, hub))
    assert (code, pod.objects()) == (1, set())


def test_the_token_goes_to_no_other_host_that_a_page_names(pod: Pod, hub: Web) -> None:
    elsewhere = Web()
    with serving(elsewhere):
        paged(hub, 2, value=f'<{elsewhere.url}{{page}}>; rel="next"')
        code, output = pod.run(
            "stage.sh", **environment(pod, hub, HF_TOKEN_SECRET="hf", FAKE_SECRET="hf_secret")
        )
    assert code == 0, output
    assert elsewhere.seen == []


@pytest.mark.parametrize("path", ["config.json", "model-00001-of-00002.safetensors"])
def test_a_damaged_file_is_never_uploaded(pod: Pod, hub: Web, path: str) -> None:
    hub.page(f"/{MODEL}/resolve/{COMMIT}/{path}", b"!" * len(FILES[path]))
    code, output = pod.run("stage.sh", **environment(pod, hub))
    assert code == 1
    assert f"{path} arrived damaged" in output
    assert PREFIX + path not in pod.objects()
    assert PREFIX + ".complete.json" not in pod.objects()


def test_a_file_of_the_same_size_from_another_commit_is_replaced(pod: Pod, hub: Web) -> None:
    pod.run("stage.sh", **environment(pod, hub))
    (pod.bucket / PREFIX / ".complete.json").unlink()
    (pod.folder / "s3" / "metadata" / PREFIX / "config.json").write_text('{"digest": "git:0"}')
    (pod.bucket / PREFIX / "config.json").write_bytes(b'{"a": 2}')
    code, output = pod.run("stage.sh", **environment(pod, hub))
    assert code == 0, output
    assert (pod.bucket / PREFIX / "config.json").read_bytes() == FILES["config.json"]


def test_a_secret_token_goes_to_the_hub_and_nowhere_else(pod: Pod, hub: Web) -> None:
    code, output = pod.run("stage.sh", **environment(pod, hub, HF_TOKEN_SECRET="hf", FAKE_SECRET="hf_secret"))
    assert code == 0, output
    assert {headers.get("Authorization") for headers in hub.headers} == {"Bearer hf_secret"}
    assert "hf_secret" not in output
    assert "hf_secret" not in (pod.folder / "s3" / "calls.log").read_text()


def test_an_unknown_revision_says_so(pod: Pod, hub: Web) -> None:
    code, output = pod.run("stage.sh", **environment(pod, hub, REVISION="v2"))
    assert code == 1
    assert "has no revision v2" in output


def test_a_refusal_of_the_bucket_is_not_taken_for_an_absent_file(pod: Pod, hub: Web) -> None:
    code, output = pod.run("stage.sh", **environment(pod, hub, REFUSE="list-objects-v2"))
    assert code == 1
    assert "AccessDenied" in output
    assert hub.seen == []


def test_a_full_disk_ends_the_job_without_a_marker(pod: Pod, hub: Web) -> None:
    # The shell's own limit on file size stands for the disk: 4 blocks of 1 KiB, less than the first weights
    # file.
    pod.program("curl", f'ulimit -f 4; exec "{shutil.which("curl")}" "$@"')
    code, output = pod.run("stage.sh", **environment(pod, hub))
    assert code == 1
    assert "is the disk full?" in output
    assert not {
        key for key in pod.objects() if key.endswith((".complete.json", "00001-of-00002.safetensors"))
    }


def test_killed_at_every_step_it_never_claims_to_be_whole_and_goes_on(pod: Pod, hub: Web) -> None:
    files = {path: FILES[path] for path in ("config.json", "model-00001-of-00002.safetensors")}
    hub.page(f"/api/models/{MODEL}/tree/{COMMIT}?recursive=true", tree(files, LARGE))
    whole = {PREFIX + path for path in files} | {PREFIX + ".complete.json"}
    pod.run("stage.sh", **environment(pod, hub))
    assert pod.objects() == whole
    steps = pod.calls()
    assert (
        steps == 2 * len(files) + 2
    )  # the marker is asked for, each file is asked for and uploaded, the marker is written
    uploads = {3, 5, 6}
    for moment in [*map(str, range(1, steps + 1)), *(f"{step}~" for step in uploads), f"{steps}+"]:
        for key in pod.objects():
            (pod.bucket / key).unlink()
        pod.forget_calls()
        code, _ = pod.run("stage.sh", **environment(pod, hub, KILL_AT=moment))
        assert code == -9, moment
        left = pod.objects()
        assert (PREFIX + ".complete.json" in left) == (left == whole) == (moment == f"{steps}+")
        for path in files.keys() & {key.removeprefix(PREFIX) for key in left}:
            assert (pod.bucket / PREFIX / path).read_bytes() == files[path]
        pod.forget_calls()
        code, output = pod.run("stage.sh", **environment(pod, hub))
        assert code == 0, output
        assert pod.objects() == whole
