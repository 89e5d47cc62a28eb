"""Every Kubernetes object: valid where it goes, nothing dropped on the way, and the two services alike but
for the draft.
"""

from __future__ import annotations

import ast
import bz2
import io
import json
import random
import re
import shutil
import subprocess
import sys
import tarfile
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import cdk8s
import kubernetes_validate
import pytest
from cdk8s_plus_27 import k8s

import charts
from charts import llmperf, model_staging, own_prompts, pod_code, vllm_service
from charts import objects as objects_module
from charts.model_storage import MOUNT_MEMORY
from charts.names import NAMESPACE, PORT
from specdec.catalog.instances import INSTANCES
from specdec.errors import BadInputError, SpecdecError
from specdec.experiment.fields import Experiment
from specdec.experiment.reading import load, parse
from specdec.operate.clone import with_region
from specdec.pod.settings import Settings
from specdec.pod.sources import unpack
from specdec.serving import artifact_path, command_line
from specdec.serving.limits import STAGING_SECONDS, start_seconds
from tests.strict_schema import require_valid
from trainium_constructs.workloads import MANIFEST_BYTES, event_bytes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILES = ("experiment.toml", "examples/tuned-baseline.toml", "examples/eagle3.toml", "examples/one-node.toml")
ALL_FILES = (
    "experiment.toml",
    *(f"examples/{path.name}" for path in sorted((ROOT / "examples").glob("*.toml"))),
)
SECOND = ("ap-south-2", "ap-south-2b")
"""A region that none of the files names, with a zone: what is said of one region holds in another."""
TWO_NODES = ("max_nodes = 1", "max_nodes = 2")

Object = dict[str, Any]


def variation(*edits: tuple[str, str]) -> Experiment:
    text = (ROOT / "experiment.toml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return parse(text)


def objects(
    experiment: Experiment, bucket: str = "bucket", region: str | None = None
) -> dict[str, list[Object]]:
    built = charts.build(experiment, region=region or experiment.regions[0], bucket=bucket)
    return {key: chart.to_json() for key, chart in built.items()}


@pytest.fixture(scope="module")
def default() -> Experiment:
    return load(ROOT / "experiment.toml")


@pytest.fixture(scope="module")
def built(default: Experiment) -> dict[str, list[Object]]:
    return objects(default)


def one(items: list[Object], kind: str) -> Object:
    (found,) = (item for item in items if item["kind"] == kind)
    return found


@pytest.mark.parametrize("file", [*ALL_FILES, "device-plugin", "devicegroup", "clients"])
def test_every_object_passes_the_strict_schema_of_every_version(file: str) -> None:
    match file:
        case "clients":
            experiment = variation(*SHARED)
        case "device-plugin":
            experiment = variation(("devices = 8", 'devices = 8\nallocation = "device-plugin"'))
        case "devicegroup":
            experiment = variation(
                ("devices = 8", 'devices = 8\nneighbours = "devicegroup"'),
                ("[capacity]", "[capacity]\nefa = true"),
            )
        case _:
            experiment = load(ROOT / file)
    for items in objects(experiment).values():
        for item in items:
            require_valid(item)


def test_the_strict_schema_does_refuse_what_it_does_not_know(built: dict[str, list[Object]]) -> None:
    template = one(built["device-claims"], "ResourceClaimTemplate")
    wrong = json.loads(json.dumps(template).replace('"exactly"', '"exactlyy"'))
    with pytest.raises(kubernetes_validate.ValidationError):
        require_valid(wrong)


def camel(name: str) -> str:
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(part.title() for part in rest)


def plain(value: Any) -> Any:
    """What a typed value holds, as Kubernetes spells it."""
    if isinstance(value, k8s.Quantity | k8s.IntOrString):
        return value.value
    fields: Any = getattr(value, "_values", None)
    if fields is not None:
        return {camel(name): plain(inner) for name, inner in fields.items()}
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [plain(inner) for inner in cast("list[Any]", value)]
    return value


def test_nothing_we_set_is_dropped_on_the_way_to_the_cluster(
    default: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[cdk8s.ApiObject, Object]] = []

    def recording(original: Callable[..., None]) -> Callable[..., None]:
        def init(self: cdk8s.ApiObject, scope: Any, id_: str, **fields: Any) -> None:
            original(self, scope, id_, **fields)
            given.append((self, fields))

        return init

    names = (
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "Job",
        "Namespace",
        "NetworkPolicy",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    )
    for name in names:
        cls: Any = getattr(k8s, f"Kube{name}")
        monkeypatch.setattr(cls, "__init__", recording(cls.__init__))
    made = charts.build(default, region="us-east-2", bucket="bucket")
    assert {each.kind for each, _ in given} == set(names)
    for each, fields in given:
        sent = {key: value for key, value in each.to_json().items() if key not in ("apiVersion", "kind")}
        assert sent == {camel(key): plain(value) for key, value in fields.items()}
    for variant in default.variants:
        deployment = one(made[variant.service].to_json(), "Deployment")
        scripts = one(made[variant.service].to_json(), "ConfigMap")["metadata"]["name"]
        spec = vllm_service.deployment_spec(
            default, variant, region="us-east-2", bucket="bucket", scripts=scripts
        )
        assert deployment["spec"] == spec
    template = one(made["device-claims"].to_json(), "ResourceClaimTemplate")
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 8


def by_name(value: Any) -> Any:
    """Lists of named things as tables, so that they compare by name."""
    if isinstance(value, dict):
        return {key: by_name(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        items = [by_name(inner) for inner in cast("list[Any]", value)]
        return (
            {item["name"]: item for item in items}
            if items and all(isinstance(i, dict) and "name" in i for i in items)
            else items
        )
    return value


def differences(left: Any, right: Any, path: str) -> Iterator[str]:
    if isinstance(left, dict) and isinstance(right, dict):
        one_side, other = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
        for key in sorted({*one_side, *other}):
            yield from differences(one_side.get(key), other.get(key), f"{path}.{key}")
    elif left != right:
        yield path


def test_the_two_services_differ_only_in_the_draft(
    default: Experiment, built: dict[str, list[Object]]
) -> None:
    baseline, speculative = default.variants
    text = json.dumps(built[speculative.service]).replace(speculative.service, baseline.service)
    pairs = zip(built[baseline.service], json.loads(text), strict=True)
    found = {
        path for left, right in pairs for path in differences(by_name(left), by_name(right), left["kind"])
    }
    pod = "Deployment.spec.template.spec"
    artifact = {
        f"{pod}.{container}.env.{name}.value"
        for container in ("containers.keep", "initContainers.restore")
        for name in ("ARTIFACT", "CONFIGURATION", "LIBRARY_CONFIGURATION", "MODEL_MARKERS")
    }
    assert found == artifact | {
        f"{pod}.containers.server.args",
        f"{pod}.containers.server.env.WARM_ARGUMENTS.value",
    }
    mine, its = command_line(default, baseline), command_line(default, speculative)
    assert (mine.image, mine.env) == (its.image, its.env)
    at = its.args.index("--speculative-config")
    assert its.args[: at - 1] == mine.args[:-1]
    extra = json.loads(its.args[at - 1])
    assert extra.pop("enable_fused_speculation") is True
    assert extra == json.loads(mine.args[-1])
    assert len(its.args) == at + 2


def amount(text: str) -> float:
    units = {"m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    found = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", text)
    assert found is not None
    return float(found[1]) * (units[found[2]] if found[2] else 1)


def requested(pod: Object, resource: str) -> float:
    """What the scheduler counts: the greater of any init container and the sum of the others."""
    each = [
        [amount(c["resources"]["requests"][resource]) for c in pod[kind]]
        for kind in ("containers", "initContainers")
    ]
    return max(sum(each[0]), *each[1])


@pytest.mark.parametrize("file", FILES)
def test_the_services_of_a_node_fit_with_mounts_and_daemons(file: str) -> None:
    experiment = load(ROOT / file)
    node = INSTANCES[experiment.capacity.instance_type]
    # kubelet reservations of the EKS AMI: amazon-eks-ami nodeadm, kubelet defaults (81fec2e, 2026-07).
    cpu = node.vcpus - (0.06 + 0.01 + 2 * 0.005 + (node.vcpus - 4) * 0.0025)
    # The firmware and kernel keep about 2 % of memory from the start; 100 Mi is the eviction threshold.
    memory = node.memory_bytes * 0.98 - (255 + 11 * node.max_pods + 100) * 2**20
    # vpc-cni, kube-proxy, pod identity, S3 CSI, CloudWatch agent, Fluent Bit, Neuron monitor, Neuron DRA
    # driver: generously.
    cpu, memory = cpu - 4, memory - 16 * 2**30 - node.devices * node.hugepages_mib * 2**20
    made = objects(experiment)
    pods = [
        one(made[variant.service], "Deployment")["spec"]["template"]["spec"]
        for variant in experiment.variants
    ]
    devices = [experiment.settings(variant).devices for variant in experiment.variants]
    bins = packed(devices, node.devices)
    for bin_ in bins:
        assert sum(requested(pods[index], "cpu") for index in bin_) <= cpu
        assert sum(requested(pods[index], "memory") for index in bin_) + amount(MOUNT_MEMORY) <= memory
    at_once = 1 if experiment.sequential else len(bins)
    assert at_once <= experiment.capacity.max_nodes


def packed(sizes: list[int], capacity: int) -> list[list[int]]:
    bins: list[list[int]] = []
    for index in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        home = next((b for b in bins if sum(sizes[i] for i in b) + sizes[index] <= capacity), None)
        if home is None:
            bins.append([index])
        else:
            home.append(index)
    return bins


def test_a_manifest_fits_what_hands_it_on(built: dict[str, list[Object]]) -> None:
    for items in built.values():
        assert sum(map(event_bytes, items)) < MANIFEST_BYTES
    rest = sum(map(event_bytes, built["llmperf"])) - len(pod_code.packed(pod_code.sources()))
    assert rest + pod_code.MOST_CODE_BYTES < MANIFEST_BYTES, "the code's own limit is met first"


def test_the_same_experiment_gives_the_same_bytes(
    default: Experiment, built: dict[str, list[Object]]
) -> None:
    assert json.dumps(objects(default)) == json.dumps(built)


def test_names_of_what_cannot_be_changed_follow_the_content_and_not_the_bucket(
    default: Experiment, built: dict[str, list[Object]]
) -> None:
    longer = objects(variation(("output_tokens = 600", "output_tokens = 500")))
    assert (
        one(longer["llmperf"], "Job")["metadata"]["name"] != one(built["llmperf"], "Job")["metadata"]["name"]
    )
    assert longer["model-staging"] == built["model-staging"]
    cores = objects(variation(("logical_core_size = 2", "logical_core_size = 1")))
    assert cores["device-claims"][0]["metadata"]["name"] != built["device-claims"][0]["metadata"]["name"]
    token = objects(default, "${Token[TOKEN.1]}")
    names = [[item["metadata"]["name"] for item in items] for items in token.values()]
    assert names == [[item["metadata"]["name"] for item in items] for items in built.values()]


@pytest.mark.parametrize(
    ("neighbours", "devices", "attribute"),
    [
        ("topology", 8, "neuron.aws.com/topology8_id"),
        ("topology", 4, "neuron.aws.com/topology4_id"),
        ("devicegroup", 8, "resource.aws.com/devicegroup8_id"),
        ("none", 8, None),
        ("topology", 16, None),
        ("topology", 1, None),
    ],
)
def test_a_claim_asks_for_neighbours_by_the_attribute_of_its_size(
    neighbours: str, devices: int, attribute: str | None
) -> None:
    edits = [
        ("devices = 8", f'devices = {devices}\nneighbours = "{neighbours}"'),
        ("desired_nodes = 0", "desired_nodes = 0\nmax_nodes = 2"),
    ]
    if devices == 1:
        edits.append(("Qwen/Qwen3-32B", "Qwen/Qwen3-8B"))
    if neighbours == "devicegroup":
        edits.append(("[capacity]", "[capacity]\nefa = true"))
    if devices < 8:
        edits.append(("tensor_parallel_degree = 32", f"tensor_parallel_degree = {devices * 4}"))
    claim = objects(variation(*edits))["device-claims"][0]["spec"]["spec"]["devices"]
    assert [c["matchAttribute"] for c in claim.get("constraints", [])] == ([attribute] if attribute else [])
    assert claim["requests"][0]["exactly"]["count"] == devices


def test_one_chip_needs_no_neighbours_and_sets_pages_aside() -> None:
    experiment = variation(
        ("trn2.48xlarge", "trn2.3xlarge"),
        ("vllm-0.9.1-sdk-2.26.1", "vllm-0.24.0-sdk-2.32.0"),
        ('"fused"', '"eagle"'),
        ("logical_core_size = 2\ndevices = 8", "logical_core_size = 2\ndevices = 1"),
        ("tensor_parallel_degree = 32", "tensor_parallel_degree = 4"),
        ("desired_nodes = 0", "desired_nodes = 2\nmax_nodes = 2\nallow_unlisted_region = true"),
    )
    made = objects(experiment)
    claim = made["device-claims"][0]["spec"]["spec"]["devices"]
    assert "constraints" not in claim
    assert claim["requests"][0]["exactly"]["count"] == 1
    assert "'trn2.3xlarge'" in claim["requests"][0]["exactly"]["selectors"][0]["cel"]["expression"]
    for variant in experiment.variants:
        pod = one(made[variant.service], "Deployment")["spec"]["template"]["spec"]
        resources = pod["containers"][0]["resources"]
        assert resources["requests"]["hugepages-2Mi"] == resources["limits"]["hugepages-2Mi"] == "5120Mi"


def test_the_device_plugin_is_spelled_in_its_own_way() -> None:
    made = objects(variation(("devices = 8", 'devices = 8\nallocation = "device-plugin"')))
    assert "device-claims" not in made
    pod = one(made["qwen-vllm"], "Deployment")["spec"]["template"]["spec"]
    assert "resourceClaims" not in pod
    assert pod["schedulerName"] == "my-scheduler"
    resources = pod["containers"][0]["resources"]
    assert (
        resources["limits"]["aws.amazon.com/neuron"] == resources["requests"]["aws.amazon.com/neuron"] == "8"
    )


def test_a_server_is_given_time_and_taken_out_gently(
    default: Experiment, built: dict[str, list[Object]]
) -> None:
    deployment = one(built["qwen-vllm"], "Deployment")["spec"]
    server = deployment["template"]["spec"]["containers"][0]
    startup = server["startupProbe"]["periodSeconds"] * server["startupProbe"]["failureThreshold"]
    assert startup == default.serving.startup_minutes * 60
    assert deployment["progressDeadlineSeconds"] == start_seconds(default) > startup + STAGING_SECONDS
    (benchmark,) = one(built["llmperf"], "Job")["spec"]["template"]["spec"]["containers"]
    waits = {entry["name"]: entry.get("value") for entry in benchmark["env"]}["WAIT_SECONDS"]
    assert int(str(waits)) == start_seconds(default)
    assert deployment["strategy"] == {"type": "Recreate"}
    assert deployment["template"]["spec"]["terminationGracePeriodSeconds"] > vllm_service.DRAIN_SECONDS
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert server[probe]["timeoutSeconds"] < server[probe]["periodSeconds"]


def test_no_pod_has_a_token_a_latest_image_or_a_writable_store(built: dict[str, list[Object]]) -> None:
    pods = [
        item["spec"]["template"]["spec"]
        for items in built.values()
        for item in items
        if item["kind"] in ("Deployment", "Job")
    ]
    assert len(pods) == 5
    for pod in pods:
        asks = pod["serviceAccountName"] == "benchmark"
        assert pod["automountServiceAccountToken"] is asks, "the benchmark alone asks the cluster"
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert re.search(r"@sha256:[0-9a-f]{64}$|:\d+\.\d+\.\d+.*-sdk\d", container["image"])
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            for mount in container["volumeMounts"]:
                assert mount.get("readOnly", False) == (
                    mount["name"] in ("files", "models", "script", "scripts")
                )
    volume = one(built["model-storage"], "PersistentVolume")["spec"]
    assert "read-only" in volume["mountOptions"]
    assert volume["csi"]["volumeAttributes"]["bucketName"] == "bucket"


def test_only_the_benchmark_and_named_namespaces_reach_a_service(built: dict[str, list[Object]]) -> None:
    (rule,) = one(built["qwen-vllm"], "NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"port": PORT, "protocol": "TCP"}]
    own, users = rule["from"]
    assert own["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "specdec"}
    assert (
        own["podSelector"]["matchLabels"].items()
        <= one(built["llmperf"], "Job")["spec"]["template"]["metadata"]["labels"].items()
    )
    assert users == {"namespaceSelector": {"matchLabels": {"specdec/client": "true"}}}
    closed = [item["spec"] for item in built["namespace"] if item["metadata"]["name"] == "no-ingress"]
    assert closed == [{"podSelector": {}, "policyTypes": ["Ingress"]}]


def test_one_account_has_rights_in_kubernetes_and_they_are_these(built: dict[str, list[Object]]) -> None:
    """Nodes are in no namespace; pods are listed in ours alone."""
    items = built["namespace"]
    assert one(items, "Role")["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    assert one(items, "ClusterRole")["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    ]
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        binding = one(items, kind)
        role = one(items, kind.removesuffix("Binding"))
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "benchmark", "namespace": NAMESPACE}
        ]


def test_servers_smaller_than_a_node_are_drawn_together_and_a_whole_one_is_not() -> None:
    experiment = load(ROOT / "examples" / "tuned-baseline.toml")
    made = objects(experiment)
    for variant in experiment.variants:
        template = one(made[variant.service], "Deployment")["spec"]["template"]
        part = experiment.settings(variant).devices < 16
        preferred = template["spec"].get("affinity", {}).get("podAffinity", {})
        assert bool(preferred) is part
        if part:
            (term,) = preferred["preferredDuringSchedulingIgnoredDuringExecution"]
            assert term["weight"] == 100
            selected = term["podAffinityTerm"]["labelSelector"]["matchLabels"]
            assert selected.items() <= template["metadata"]["labels"].items()
            assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    sizes = {experiment.settings(variant).devices for variant in experiment.variants}
    assert len(sizes) > 1


@pytest.mark.parametrize(
    ("security", "level"),
    [("strict", "baseline"), ("capabilities", "privileged"), ("privileged", "privileged")],
)
def test_the_namespace_lets_the_servers_rights_in_and_tells_of_them(security: str, level: str) -> None:
    made = objects(variation(("devices = 8", f'devices = 8\nsecurity = "{security}"')))
    context = one(made["qwen-vllm"], "Deployment")["spec"]["template"]["spec"]["containers"][0][
        "securityContext"
    ]
    assert context.get("privileged", False) is (security == "privileged")
    assert (context.get("capabilities", {}).get("drop") == ["ALL"]) is (security == "strict")
    labels = one(made["namespace"], "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == level
    assert (
        labels["pod-security.kubernetes.io/warn"]
        == labels["pod-security.kubernetes.io/audit"]
        == "restricted"
    )


def test_the_benchmark_starts_with_the_stack_and_waits_by_itself(built: dict[str, list[Object]]) -> None:
    job = one(built["llmperf"], "Job")
    assert "suspend" not in job["spec"]
    assert "activeDeadlineSeconds" not in job["spec"], "it would count while there are no nodes"
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")


SHARED = (
    ("repeats = 2", "repeats = 2\nclients = 3"),
    ('lanes = ["exact", "llmperf"]', 'lanes = ["exact"]'),
)


def test_clients_that_share_a_run_are_an_indexed_job_and_find_each_other(
    built: dict[str, list[Object]],
) -> None:
    made = objects(variation(*SHARED))
    job = one(made["llmperf"], "Job")
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    # A retry could not join a run that has begun.
    assert spec["backoffLimit"] == 0
    values = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"]}
    assert "JOB_COMPLETION_INDEX" not in values, "Kubernetes sets it"
    assert values["SPECDEC_CLIENTS"] == "3"
    service = next(item for item in made["llmperf"] if item["kind"] == "Service")
    (port,) = service["spec"]["ports"]
    assert values["SPECDEC_MEET"] == f"{service['metadata']['name']}.specdec.svc:{port['port']}"
    labels = spec["template"]["metadata"]["labels"]
    # Only the first pod is met there: the label is the Job controller's own.
    index = {"batch.kubernetes.io/job-completion-index": "0"}
    assert service["spec"]["selector"] == labels | index
    policy = one(made["llmperf"], "NetworkPolicy")
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    for direction, side in (("ingress", "from"), ("egress", "to")):
        (rule,) = policy["spec"][direction]
        assert rule[side][0]["podSelector"]["matchLabels"].items() <= labels.items()
        assert [allowed["port"] for allowed in rule["ports"]] == [port["port"]]
    (apart,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert apart["labelSelector"]["matchLabels"].items() <= labels.items()
    assert "nodeAffinity" in pod["affinity"]
    # One client alone has none of it.
    assert {item["kind"] for item in built["llmperf"]} == {"ConfigMap", "Job"}
    assert "completionMode" not in one(built["llmperf"], "Job")["spec"]


def test_a_pod_of_an_indexed_job_knows_its_share(tmp_path: Path) -> None:
    shared = variation(*SHARED)
    path = tmp_path / "experiment.json"
    path.write_text(json.dumps(shared.resolved()), encoding="utf-8")
    pod = one(objects(shared)["llmperf"], "Job")["spec"]["template"]["spec"]
    values = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"]}
    given = values | {"EXPERIMENT": str(path)}
    shares = [Settings.of(given | {"JOB_COMPLETION_INDEX": str(index)}).share for index in range(3)]
    assert [(share.index, share.of) for share in shares] == [(0, 3), (1, 3), (2, 3)]
    assert shares[1].meet == shares[2].meet == values["SPECDEC_MEET"]
    # The first one listens on every address of its own.
    assert shares[0].meet == "0.0.0.0:7070"
    assert not any(share.mistakes() for share in shares)


UNRELATED = (
    ("[capacity]", '[cluster]\nvpc_cidr = "10.43.0.0/16"\nlog_retention_days = 7\n\n[capacity]'),
    ("[capacity]", "[guards]\nscale_down_every_hours = 5\n\n[capacity]"),
    ("[capacity]", '[tags]\nteam = "x"\n\n[capacity]'),
    ('zone = "us-east-2b"', 'zone = "us-east-2c"'),
    ('owner = "inference-team"', 'owner = "others"'),
    ("desired_nodes = 0", "desired_nodes = 1\nmax_nodes = 3\nroot_volume_gib = 600"),
)
RELATED = (
    ("output_tokens = 600", "output_tokens = 599"),
    ("repeats = 2", "repeats = 3"),
    ("window = 7", "window = 5"),
    ("devices = 8", "devices = 8\nstartup_minutes = 200"),
    (
        'instance_type = "trn2.48xlarge"',
        'instance_type = "trn2.48xlarge"\nsystem_instance_type = "m7i.4xlarge"',
    ),
)


@pytest.mark.parametrize("edit", UNRELATED, ids=[new.strip()[-24:] for _, new in UNRELATED])
def test_an_edit_of_the_stack_leaves_the_jobs_alone(
    edit: tuple[str, str], built: dict[str, list[Object]]
) -> None:
    made = objects(variation(edit))
    for chart in ("llmperf", "model-staging"):
        assert made[chart] == built[chart]


@pytest.mark.parametrize("edit", RELATED, ids=[new[-24:] for _, new in RELATED])
def test_an_edit_of_what_is_measured_is_another_job(
    edit: tuple[str, str], built: dict[str, list[Object]]
) -> None:
    made = one(objects(variation(edit))["llmperf"], "Job")
    assert made["metadata"]["name"] != one(built["llmperf"], "Job")["metadata"]["name"]


def little(**_: str) -> dict[str, k8s.Quantity]:
    return {"memory": k8s.Quantity.from_string("1Gi")}


def narrow(name: str, _: str) -> k8s.Volume:
    return objects_module.empty_dir(name, "7Gi")


@pytest.mark.parametrize("chart", ["llmperf", "model-staging"])
@pytest.mark.parametrize("change", ["resources", "security", "volumes", "image"])
def test_whatever_kubernetes_lets_nobody_change_changes_the_name(
    chart: str,
    change: str,
    built: dict[str, list[Object]],
    default: Experiment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module: Any = {"llmperf": llmperf, "model-staging": model_staging}[chart]
    match change:
        case "resources":
            monkeypatch.setattr(module, "quantities", little)
        case "security":
            monkeypatch.setattr(module, "restricted", lambda: k8s.SecurityContext(run_as_user=7))
        case "volumes":
            monkeypatch.setattr(module, "empty_dir", narrow)
        case _:
            name = "PYTHON_IMAGE" if chart == "llmperf" else "AWS_CLI_IMAGE"
            monkeypatch.setattr(module, name, "image@sha256:0")
    names = {item["metadata"]["name"] for item in built[chart] if item["kind"] == "Job"}
    changed = {item["metadata"]["name"] for item in objects(default)[chart] if item["kind"] == "Job"}
    assert not names & changed
    assert len(names) == len(changed)


def test_code_that_its_config_map_has_no_room_for_is_refused() -> None:
    large = {"specdec/x.py": "".join(f"{random.Random(1).getrandbits(64)}\n" for _ in range(2))}
    noise = random.Random(1).randbytes(pod_code.MOST_CODE_BYTES).hex()
    assert pod_code.packed(large)
    with pytest.raises(SpecdecError, match="its config map has room for 195000") as refused:
        pod_code.packed({**large, "specdec/y.py": noise})
    assert "Move what only a command line uses" in (refused.value.remedy or "")


def test_what_only_a_type_checker_imports_does_not_travel() -> None:
    text = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from specdec.report import html\n"
        "else:\n    import specdec.text\n"
        "def f():\n    try:\n        with x:\n            from specdec import atomic\n"
        "    except OSError:\n        import specdec.aws\n"
    )
    names = set(pod_code.imported(ast.parse(text).body))
    assert {"specdec.text", "specdec.atomic", "specdec.aws"} <= names
    assert not any("report" in name for name in names)
    travelling = pod_code.modules(pod_code.ENTRY)
    # Needed within a function only, and needed by a command line only.
    assert "specdec.benchmark.after" in travelling
    assert not {"specdec.experiment.reading", "specdec.runs.find", "specdec.cli"} & travelling


def test_the_benchmarks_code_is_whole_and_imports_alone(
    built: dict[str, list[Object]], tmp_path: Path
) -> None:
    packed_code = b64decode(one(built["llmperf"], "ConfigMap")["binaryData"]["code.tar.bz2"])
    with tarfile.open(fileobj=io.BytesIO(bz2.decompress(packed_code))) as tar:
        unpack(tar, tmp_path)
    modules = {
        path.relative_to(tmp_path).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        for path in tmp_path.rglob("*.py")
    }
    assert modules == pod_code.modules(pod_code.ENTRY)
    # Every module runs with nothing else of the package, those too that are imported within a function.
    code = (
        f"import importlib; [importlib.import_module(name) for name in {sorted(modules)}];"
        " import specdec.prompts.sets as p; print(len(p.load('classes')))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_an_own_prompt_file_travels_with_the_job(
    tmp_path: Path, default: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prompts = tmp_path / "mine" / "own.txt"
    prompts.parent.mkdir()
    prompts.write_text("Say hi\n")

    def job(path: str) -> tuple[list[Object], Object]:
        made = objects(
            default.model_copy(update={"benchmark": default.benchmark.model_copy(update={"prompts": path})})
        )["llmperf"]
        return [item for item in made if item["kind"] == "ConfigMap"], one(made, "Job")

    files, first = job("mine/own.txt")
    (command,) = first["spec"]["template"]["spec"]["containers"][0]["command"][-1:]
    assert unpacked(command, files, tmp_path / "pod") == "Say hi\n"
    prompts.write_text("Say ho\n")
    assert job("mine/own.txt")[1]["metadata"]["name"] != first["metadata"]["name"]
    # The event that carries a manifest holds 256 KiB, and one prompt file may be larger than that.
    lines = random.Random(1)
    for size, parts in ((110_000, 1), (700_000, 2)):
        prompts.write_text(
            "".join(f"{lines.getrandbits(60):x} {n} a prompt of some more words\n" for n in range(size // 48))
        )
        files, large = job("mine/own.txt")
        assert len(files) == parts + 1
        assert all(event_bytes(item) < MANIFEST_BYTES for item in files)
        (command,) = large["spec"]["template"]["spec"]["containers"][0]["command"][-1:]
        assert unpacked(command, files, tmp_path / f"pod{size}") == prompts.read_text()
    prompts.write_text("".join(f"{lines.getrandbits(400):x}\n" for _ in range(8000)))
    with pytest.raises(BadInputError, match=r"benchmark\.prompts.*a deployment carries 225000"):
        job("mine/own.txt")
    for outside in (str(prompts), "../own.txt", "mine/absent.txt"):
        with pytest.raises(BadInputError, match="prompts"):
            job(outside)


def test_an_own_prompt_file_is_where_the_experiment_says_wherever_it_was_deployed_from(
    tmp_path: Path, default: Experiment
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "own.txt").write_text("Say hi\n")
    benchmark = default.benchmark.model_copy(update={"prompts": "mine/own.txt"})
    wanted = default.model_copy(update={"benchmark": benchmark})
    made = charts.build(wanted, region=wanted.regions[0], bucket="b", base=tmp_path)["llmperf"].to_json()
    files = [item for item in made if item["kind"] == "ConfigMap"]
    (command,) = one(made, "Job")["spec"]["template"]["spec"]["containers"][0]["command"][-1:]
    assert unpacked(command, files, tmp_path / "pod") == "Say hi\n"


def unpacked(command: str, files: list[Object], folder: Path) -> str:
    """What the command makes of the prompts, with the config maps as files where the pod has them."""
    folder.mkdir()
    for item in files:
        for name, content in item["binaryData"].items():
            (folder / name).write_bytes(b64decode(content))
    steps = [step for step in command.split(" && ") if "code.tar" not in step and "start.sh" not in step]
    local = (
        " && ".join(steps)
        .replace(own_prompts.PROMPTS, str(folder))
        .replace("python -c", f"{sys.executable} -c")
    )
    subprocess.run(["bash", "-o", "pipefail", "-c", local], cwd=folder, check=True, timeout=60)
    return (folder / "mine" / "own.txt").read_text(encoding="utf-8")


def test_the_scripts_in_the_config_maps_are_the_tested_ones(built: dict[str, list[Object]]) -> None:
    for name in vllm_service.SCRIPTS:
        assert one(built["qwen-vllm"], "ConfigMap")["data"][name] == (
            ROOT / "charts" / "scripts" / name
        ).read_text(encoding="utf-8")
    for name in ("ready.sh", "drain.sh"):
        assert f"127.0.0.1:{PORT}" in (ROOT / "charts" / "scripts" / name).read_text(encoding="utf-8")


def test_the_scripts_pass_shellcheck() -> None:
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "shellcheck"),
            "-x",
            *map(str, sorted((ROOT / "charts" / "scripts").glob("*.sh"))),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_what_the_restore_step_asks_is_what_the_server_was_told(
    default: Experiment, built: dict[str, list[Object]]
) -> None:
    for variant in default.variants:
        pod = one(built[variant.service], "Deployment")["spec"]["template"]["spec"]
        restore = {entry["name"]: entry.get("value") for entry in pod["initContainers"][0]["env"]}
        server = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"]}
        assert restore["ARTIFACT"] == artifact_path(default, variant)
        assert restore["ARTIFACT_DIR"] == server["ARTIFACT_DIR"] == server["NEURON_COMPILED_ARTIFACTS"]


def kubectl(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["kubectl", *arguments], input=stdin, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def control_plane() -> Iterator[None]:
    """A reachable cluster with the namespace in it: without one, admission refuses each object before its
    content is looked at.
    """
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    reachable = kubectl("version", "--request-timeout=5s")
    if reachable.returncode != 0:
        pytest.skip(f"no control plane reachable: {reachable.stderr.strip().splitlines()[-1:]}")
    namespace = one(objects(load(ROOT / "experiment.toml"))["namespace"], "Namespace")
    made = kubectl("create", "-f", "-", stdin=json.dumps(namespace))
    assert made.returncode == 0 or "AlreadyExists" in made.stderr, made.stderr
    yield
    if made.returncode == 0:
        kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def asked(items: list[Object]) -> subprocess.CompletedProcess[str]:
    """What the control plane says of objects, without keeping them."""
    how = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    return kubectl(*how, stdin="\n---\n".join(map(json.dumps, items)))


@pytest.mark.cluster
@pytest.mark.usefixtures("control_plane")
@pytest.mark.parametrize("file", ALL_FILES)
def test_a_real_control_plane_accepts_the_manifests(file: str) -> None:
    """Every example, in its own region and in another. Jobs pass the strictest level of pod security."""
    text = (ROOT / file).read_text(encoding="utf-8")
    experiment = parse(with_region(text, region=SECOND[0], zone=SECOND[1]))
    assert len(experiment.regions) > 1
    for region in experiment.regions:
        for key, items in objects(experiment, region=region).items():
            answer = asked(items)
            assert answer.returncode == 0, f"{file}, {region}, {key}: {answer.stderr}"
            if key in ("model-staging", "llmperf"):
                assert "would violate PodSecurity" not in answer.stderr, f"{file}, {region}: {answer.stderr}"


WRONG: dict[str, tuple[str, str]] = {
    "a field that there is not": ('"terminationGracePeriodSeconds"', '"terminationGraceSeconds"'),
    "a port that there is not": ('"containerPort": 8000', '"containerPort": 80000'),
    "an amount that is none": ('"cpu": "500m"', '"cpu": "a lot"'),
    "a selector that its pods do not have": ('"matchLabels": {"app', '"matchLabels": {"other": "x", "app'),
    "a mount of no volume": ('"name": "scratch", "mountPath"', '"name": "scratched", "mountPath"'),
    "a probe without an action": ('"httpGet": {"path": "/health", "port": "http"}, ', ""),
    "a strategy that there is not": ('"type": "Recreate"', '"type": "Replace"'),
    "a name in capitals": ('"name": "qwen-vllm"', '"name": "Qwen"'),
}
"""Slips that the control plane has to refuse, else its acceptance says nothing: what, old, new."""


@pytest.mark.parametrize("what", WRONG)
def test_every_slip_fits(what: str, built: dict[str, list[Object]]) -> None:
    old, new = WRONG[what]
    text = json.dumps(one(built["qwen-vllm"], "Deployment"))
    assert old in text
    json.loads(text.replace(old, new))


@pytest.mark.cluster
@pytest.mark.usefixtures("control_plane")
@pytest.mark.parametrize("what", WRONG)
def test_a_real_control_plane_refuses_what_is_wrong(what: str, built: dict[str, list[Object]]) -> None:
    old, new = WRONG[what]
    text = json.dumps(one(built["qwen-vllm"], "Deployment"))
    answer = asked([json.loads(text.replace(old, new))])
    assert answer.returncode != 0, f"accepted: {answer.stdout}"
    assert "namespaces" not in answer.stderr, "refused for want of the namespace, before its content was seen"


def test_one_after_the_other_the_benchmark_scales_the_services_and_may_do_nothing_else() -> None:
    text = (ROOT / "examples" / "one-node.toml").read_text(encoding="utf-8")
    together = text.replace('"sequential"', '"concurrent"').replace(*TWO_NODES)
    sequential, alternate = (objects(parse(written)) for written in (text, together))
    assert sequential.keys() - alternate.keys() == {"phases"}
    role, binding = one(sequential["phases"], "Role"), one(sequential["phases"], "RoleBinding")
    services = ["llama-vllm", "llama-eagle3-vllm"]
    assert role["rules"] == [
        {
            "apiGroups": ["apps"],
            "resources": ["deployments/scale"],
            "resourceNames": services,
            "verbs": ["get", "patch"],
        }
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "benchmark", "namespace": NAMESPACE}]
    replicas = [one(sequential[service], "Deployment")["spec"]["replicas"] for service in services]
    assert replicas == [1, 0], "the first phase is the baseline's"
    assert [one(alternate[service], "Deployment")["spec"]["replicas"] for service in services] == [1, 1]
    jobs = [one(built["llmperf"], "Job")["spec"]["template"]["spec"] for built in (sequential, alternate)]
    assert jobs[0]["automountServiceAccountToken"] is True
    names = [entry["name"] for entry in jobs[1]["containers"][0]["env"]]
    told = {entry["name"]: entry["value"] for entry in jobs[0]["containers"][0]["env"]}
    assert told.keys() - set(names) == {"DEPLOYMENTS", "LEAVE_SECONDS"}
    assert json.loads(told["DEPLOYMENTS"]) == {"baseline": services[0], "eagle3": services[1]}
    grace = one(sequential[services[0]], "Deployment")["spec"]["template"]["spec"]
    assert int(told["LEAVE_SECONDS"]) == grace["terminationGracePeriodSeconds"]
