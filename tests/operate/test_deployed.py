"""The commands as a user runs them, around the drill's deployment of the real app to two regions of an
embedded account.

Nothing here shows what AWS itself would say.
"""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from specdec.preflight.leftovers import KINDS
from tests.operate.user import FIRST, SECOND, Ended
from tests.stack.synthesis import Template, without_region

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1000)]

STACK = f"drill-{FIRST}"
PLANTED = {
    # The embedded account's own key is its root user's.
    ("identity", "warning", "this is the account's root user"),
    # An account that was never bootstrapped, which each one is at first.
    ("bootstrap", "blocker", f"the CDK is not bootstrapped in {FIRST}"),
    ("names", "blocker", f"log group /aws/eks/{STACK}/cluster is left from an earlier deployment"),
    ("quota", "blocker", "191 vCPUs of Trn instances allowed, 192 needed"),
    ("offering", "blocker", f"trn2.48xlarge is not offered in {FIRST}b, but in {FIRST}c"),
    (
        "zones",
        "blocker",
        (
            f"m7i.2xlarge is not offered in {FIRST}b, where the control plane and the system node will run,"
            f" but in {FIRST}a"
        ),
    ),
    (
        "access",
        "warning",
        (
            "arn:aws:iam::111122223333:root is not in cluster.admin_principal_arns, so kubectl, `specdec run`"
            " and the state of pods will be out of its reach"
        ),
    ),
    ("capacity blocks", "warning", "the account's quota for Trn2 Capacity Blocks is 0, so none is shown"),
    ("kubernetes", "blocker", f"EKS does not offer 1.35 in {FIRST}; it offers 1.30"),
    ("add-ons", "blocker", "coredns has no version for Kubernetes 1.35"),
    (
        "add-ons",
        "blocker",
        (
            "vpc-cni v1.22.4-eksbuild.3 does not take the settings of the stack: the top: Additional"
            " properties are not allowed ('enableNetworkPolicy' was unexpected)"
        ),
    ),
    (
        "add-ons",
        "blocker",
        (
            "amazon-cloudwatch-observability is offered for Kubernetes 1.35 up to v5.3.1-eksbuild.1; the"
            " default of EKS is v5.3.1-eksbuild.1, which is too old for the settings of the stack;"
            " aws-observability/helm-charts 6.2.0 (2026-06-10) brought containerInsights.enabled and"
            " applicationSignals.enabled"
        ),
    ),
    ("node image", "blocker", f"no Amazon Linux 2023 image with the Neuron driver for 1.35 in {FIRST}"),
}
"""What is wrong with the account before the deployment: check, level and sentence."""


@pytest.fixture(scope="session")
def said(drill: dict[str, Any]) -> dict[str, Ended]:
    return {name: Ended(**ended) for name, ended in drill["said"].items()}


def steps(ended: Ended) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in ended.document["steps"]}


def test_before_the_deployment_exactly_what_is_wrong_is_listed_each_with_a_remedy(
    said: dict[str, Ended],
) -> None:
    before = said["check before"]
    assert before.code == 1
    wrong = [finding for finding in before.document[FIRST] if finding["level"] != "ok"]
    assert {(finding["check"], finding["level"], finding["what"]) for finding in wrong} == PLANTED
    assert len(wrong) == len(PLANTED)
    assert all(finding["remedy"] for finding in wrong)


def test_what_a_person_reads_is_plain_text_when_piped_with_progress_apart(said: dict[str, Ended]) -> None:
    shown = said["check before, for people"]
    assert shown.code == 1
    assert "\x1b" not in shown.out + shown.err
    assert "10 blocker, 3 warning" in shown.out
    assert shown.out.count("remedy: ") == len(PLANTED)
    assert f"checking {FIRST}" in shown.err
    assert f"checking {FIRST}" not in shown.out


def test_an_old_default_no_guard_no_role_a_past_schedule_and_a_missing_zone_are_named(
    said: dict[str, Ended],
) -> None:
    """All at once, as an account that nobody prepared has them."""
    unguarded = said["check unguarded"]
    assert unguarded.code == 1
    sentences = [finding["what"] for finding in unguarded.document[FIRST] if finding["level"] != "ok"]
    for named in (
        "the default of EKS is v5.3.1-eksbuild.1, which is too old",
        "nothing stops a forgotten node",
        "is not in cluster.admin_principal_arns",
        "guards.scale_down_at = 2020-01-02T03:04:05 is in the past",
        f"m7i.2xlarge is not offered in {FIRST}b, where the control plane",
    ):
        assert any(named in sentence for sentence in sentences), f"{named} is not in {sentences}"


def test_what_it_costs_is_itemized_with_sources(said: dict[str, Ended]) -> None:
    cost = [finding["what"] for finding in said["check before"].document[FIRST] if finding["check"] == "cost"]
    assert (
        cost[0]
        == f"trn2.48xlarge nodes, while up (1): 40.000 USD an hour; AWS pricing API, on demand, {FIRST} (now)"
    )
    assert cost[1].startswith("their root volumes, GB, while up (500): ")
    assert (
        cost[2]
        == f"m7i.2xlarge system node (1): 0.500 USD an hour; AWS pricing API, on demand, {FIRST} (now)"
    )
    assert any(line.startswith("EKS control plane (1): 0.100 USD an hour; ") for line in cost)
    assert cost[-1].endswith(" for 8 hours")


@pytest.mark.parametrize("region", [FIRST, SECOND])
def test_after_the_deployment_nothing_is_wrong(said: dict[str, Ended], region: str) -> None:
    after = said["check after"]
    assert after.code == 0, after.err
    found = after.document[region]
    # With the calendar, the support of a version comes to its end.
    lasting = [finding for finding in found if "standard support of" not in finding["what"]]
    assert [finding for finding in lasting if finding["level"] != "ok"] == []
    assert {finding["check"] for finding in found} >= {check for check, _, _ in PLANTED}, (
        "each was looked at again"
    )
    names = [finding["what"] for finding in found if finding["check"] == "names"]
    assert names == [f"stack drill-{region} is CREATE_COMPLETE; deploying updates it"]


def test_a_clone_adds_its_region_and_is_deployed_there(drill: dict[str, Any], said: dict[str, Ended]) -> None:
    assert drill["experiment"].regions == (FIRST, SECOND)
    assert f"added {SECOND}, zone {SECOND}b" in said["clone"].err
    assert drill["outputs"][STACK]["Bucket"] != drill["outputs"][f"drill-{SECOND}"]["Bucket"]


def apart(template: Template) -> tuple[list[str], dict[str, Any]]:
    """The texts of the experiment that a template carries, and the rest of it."""
    texts, body = list[str](), copy.deepcopy(template.body)
    for name, objects in template.manifests.items():
        texts += [
            one["data"].pop("experiment.json") for one in objects if "experiment.json" in one.get("data", {})
        ]
        body["Resources"][name]["Properties"]["Manifest"] = objects
    return texts, body


def test_what_a_clone_deploys_differs_in_nothing_but_the_region(drill: dict[str, Any]) -> None:
    here, there = (
        apart(Template(json.dumps(drill["deployed"][region]["template"]))) for region in (FIRST, SECOND)
    )
    assert here[0]
    # A run keeps the region it was measured in.
    assert [text.replace(FIRST, SECOND) for text in here[0]] == there[0]
    assert without_region(here[1], FIRST) == without_region(there[1], SECOND)


def test_a_clone_takes_models_and_artifacts_along_and_no_runs(said: dict[str, Ended]) -> None:
    copied = said["copied"].document
    assert said["copy"].code == 0
    assert "8 objects copied, 0 were there already" in said["copy"].err
    assert len(copied) == 8
    assert all(key.startswith(("models/", "artifacts/")) for key in copied)


def test_a_rotten_object_is_found_and_copied_again(said: dict[str, Ended]) -> None:
    assert "1 objects copied, 7 were there already" in said["copy again"].err
    assert said["copied again"].code == 0


@pytest.mark.parametrize(
    ("when", "wanted", "running", "state"),
    [
        ("status at first", 0, "0 of 0", "done"),
        ("status when down", 0, "0 of 0", "done"),
        ("status while starting", 1, "0 of 1", "waiting"),
        ("status when up", 1, "1 of 1", "done"),
    ],
)
def test_the_status_follows_the_nodes(
    said: dict[str, Ended], when: str, wanted: int, running: str, state: str
) -> None:
    assert said[when].code == 0
    found = steps(said[when])
    assert found["capacity"]["detail"] == f"accelerator-{FIRST}b-on-demand is ACTIVE, {wanted} nodes wanted"
    assert (found["instances running"]["detail"], found["instances running"]["state"]) == (running, state)
    assert (found["instances running"]["since"] is not None) == (when == "status when up")


def test_nodes_are_told_as_they_are_set_and_kept_within_the_group(said: dict[str, Ended]) -> None:
    for name, nodes in (("down", 0), ("up", 1)):
        assert said[name].code == 0
        assert said[name].out == f"accelerator-{FIRST}b-on-demand in {FIRST}: {nodes} nodes wanted\n"
    assert said["too many"].code == 1
    assert "2 nodes requested, and at most 1 are allowed" in said["too many"].err


def test_the_status_tells_what_is_in_the_bucket_and_that_the_cluster_was_not_asked(
    said: dict[str, Ended],
) -> None:
    assert steps(said["status at first"])["weights of Qwen/Qwen3-32B"]["state"] == "waiting"
    found = steps(said["status when down"])
    assert found["weights of Qwen/Qwen3-32B"]["state"] == "done"
    assert found["benchmark"]["detail"] == "no run has ended yet"
    assert said["status at first"].document["not_asked"]


def test_a_run_is_applied_as_it_is_printed(drill: dict[str, Any], said: dict[str, Ended]) -> None:
    printed = said["run printed"].document
    applied = json.loads((drill["folder"] / "applied.json").read_text(encoding="utf-8"))
    assert (
        [item["kind"] for item in applied["items"]]
        == [item["kind"] for item in printed["items"]]
        == ["ConfigMap", "Job"]
    )
    job = applied["items"][-1]
    assert job["metadata"]["name"].endswith(f"-{said['run'].out.strip().lower()}")
    environment = {
        entry["name"]: entry.get("value") for entry in job["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert environment["BUCKET"] == drill["outputs"][STACK]["Bucket"]
    assert "--server-side" in (drill["folder"] / "kubectl.arguments").read_text(encoding="utf-8")
    user = json.loads((drill["folder"] / "kubeconfig").read_text(encoding="utf-8"))["users"][0]["user"]
    assert user["token"].startswith("k8s-aws-v1.")


def test_no_run_is_no_error_and_waiting_for_one_ends_in_time(said: dict[str, Ended]) -> None:
    assert said["runs"].document == []
    assert said["wait"].code == 1
    assert said["wait"].err.splitlines()[-1] == "no new run after 0 minutes"
    assert "services and jobs not known, so a failure there does not end the wait: " in said["wait"].err


def test_a_living_stack_is_named_as_what_is_left(said: dict[str, Ended]) -> None:
    left = said["leftovers while deployed"]
    assert left.code == 1
    assert [entry["kind"] for entry in left.document] == ["stack", "stack"]


def test_after_destroy_nothing_is_left_but_keys_that_wait_for_their_deletion(said: dict[str, Ended]) -> None:
    left = said["leftovers after destroy"]
    assert left.code == 0, left.out
    assert {entry["kind"] for entry in left.document} <= {"kms key"}
    assert all(entry["kept"] for entry in left.document)


def test_an_orphan_of_each_kind_is_shown(said: dict[str, Ended]) -> None:
    left = said["leftovers of others"]
    assert left.code == 1
    found = [entry for entry in left.document if not entry["kept"]]
    assert {entry["kind"] for entry in found} == KINDS - {"stack"}, "a stack is shown alone"
    assert all(STACK in entry["remove"] or entry["name"] in entry["remove"] for entry in found)
    assert all(entry["remove"] for entry in left.document)
    assert len({(entry["kind"], entry["name"]) for entry in left.document}) == len(left.document)
    groups = [entry["name"] for entry in found if entry["kind"] == "log group"]
    assert groups == [f"/aws/containerinsights/{STACK}/performance", f"{STACK}-NetworkFlowLogs0A-B"]


def test_nodes_up_says_what_is_not_staged_and_gives_the_nodes_their_whole_time(
    said: dict[str, Ended],
) -> None:
    early, late = said["up before staging"], said["up"]
    assert early.code == late.code == 0
    assert "weights of Qwen/Qwen3-32B are not in the bucket yet" in early.err
    assert "not in the bucket yet" not in late.err
    guards = said["guards"].document
    (moved,) = [group for group, start in guards.items() if start is not None]
    assert moved == f"accelerator-{FIRST}b-on-demand"
    assert len(guards) == 3, "one for the group of each zone"
    begins = datetime.fromisoformat(guards[moved]).astimezone(UTC)
    assert f"they are set to 0 at {begins:%Y-%m-%d %H:%M} UTC" in late.err
