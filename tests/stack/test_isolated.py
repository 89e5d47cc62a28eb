"""Without a way to the internet: no route, image or address to the outside in the whole template."""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import pytest

from specdec.errors import BadInputError
from specdec.experiment.endpoints import ENDPOINTS
from specdec.experiment.reading import parse
from tests.stack.synthesis import DEFAULT, Template, template
from tests.stack.test_existing_cluster import CLUSTER

pytestmark = pytest.mark.slow

MIRROR = "111122223333.dkr.ecr.us-east-2.amazonaws.com"
NETWORK = """[network]
internet = false
image_prefix = "111122223333.dkr.ecr.{region}.amazonaws.com/ecr-public"
neuron_chart = "oci://111122223333.dkr.ecr.{region}.amazonaws.com/charts/neuron-helm-chart"
python_index = "https://artifacts.corp.internal/pypi/simple"
model_hub = "https://artifacts.corp.internal/hub/"
llmperf_source = "https://artifacts.corp.internal/llmperf.tar.gz"
llmperf_tokenizer = "https://artifacts.corp.internal/tokenizer"
proxy = "http://proxy.corp.internal:3128"

"""
ISOLATED = (("[serving]", f"{NETWORK}[serving]"),)
OWN = re.compile(
    r"^(127\.0\.0\.1|localhost|[a-z0-9-]+\.specdec\.svc|[a-z.]*corp\.internal|\.console\.aws\.amazon\.com"
    r"|111122223333\.dkr\.ecr\.us-east-2\.amazonaws\.com)$"
)
"""Hosts that are no outside: ourselves, the mirrors, and the console that a link on a dashboard opens for a
person."""


@pytest.fixture(scope="module")
def isolated() -> Template:
    return template(*ISOLATED)


def images(node: Any) -> Iterator[str]:
    """Every value of a key ``image``, and of ``repository``, in parsed objects."""
    if isinstance(node, dict):
        for key, value in cast("dict[str, Any]", node).items():
            if key in ("image", "repository") and isinstance(value, str):
                yield value
            yield from images(value)
    elif isinstance(node, list):
        for value in cast("list[Any]", node):
            yield from images(value)


def everything(made: Template) -> str:
    """The template with the Kubernetes objects and chart values in it unpacked, and without what an artifact
    is named after: the image that compiled it, wherever that was pulled from.
    """
    packed = made.of_type("Custom::AWSCDK-EKS-KubernetesResource")
    others = {name: resource for name, resource in made.resources.items() if name not in packed}
    rest = {name: part for name, part in made.body.items() if name != "Resources"}
    text = json.dumps([rest, others, made.manifests])
    return re.sub(r'"name": "CONFIGURATION", "value": "(\\.|[^"\\])*"', "", text)


def test_no_way_out_is_made(isolated: Template) -> None:
    for kind in ("NatGateway", "InternetGateway", "EIP", "EgressOnlyInternetGateway", "Route"):
        assert isolated.of_type(f"AWS::EC2::{kind}") == {}
    assert template().of_type("AWS::EC2::NatGateway"), "the default has one, or this shows nothing"
    for subnet in isolated.of_type("AWS::EC2::Subnet").values():
        assert not subnet["Properties"].get("MapPublicIpOnLaunch")


def test_every_service_that_is_called_has_an_endpoint(isolated: Template) -> None:
    endpoints = [one["Properties"] for one in isolated.of_type("AWS::EC2::VPCEndpoint").values()]
    names = {json.dumps(one["ServiceName"]) for one in endpoints if one["VpcEndpointType"] == "Interface"}
    assert len(names) == len(ENDPOINTS)
    for service in ENDPOINTS:
        assert any(f".{service}" in name for name in names), service
    assert all(one["PrivateDnsEnabled"] for one in endpoints if one["VpcEndpointType"] == "Interface")
    (gateway,) = [one for one in endpoints if one["VpcEndpointType"] == "Gateway"]
    tables = {json.dumps(table) for table in gateway["RouteTableIds"]}
    assert len(tables) == len(isolated.of_type("AWS::EC2::RouteTable"))


def test_no_image_comes_from_outside(isolated: Template) -> None:
    charts = [one["Properties"] for one in isolated.of_type("Custom::AWSCDK-EKS-HelmChart").values()]
    values = [json.loads(chart["Values"]) for chart in charts]
    pulled = set(images([list(isolated.manifests.values()), values]))
    assert pulled
    assert {image.partition("/")[0] for image in pulled} == {MIRROR}
    assert f"{MIRROR}/ecr-public/neuron/neuron-dra-driver" in pulled
    assert charts[0]["Repository"] == f"oci://{MIRROR}/charts/neuron-helm-chart"


def test_no_address_is_outside(isolated: Template) -> None:
    hosts = set(re.findall(r"(?:https?|oci|git|ssh)://([A-Za-z0-9.-]*)", everything(isolated)))
    assert {host for host in hosts if host and not OWN.match(host)} == set()
    assert "artifacts.corp.internal" in hosts
    words = everything(isolated)
    assert not re.findall(r"huggingface\.co|github\.com|public\.ecr\.aws|pypi\.org", words)
    # The same look at the default finds them.
    assert {"public.ecr.aws"} <= set(re.findall(r"oci://([a-z.]*)", everything(template())))


def test_pods_are_told_of_mirrors_and_proxy(isolated: Template) -> None:
    said = {
        entry["name"]: entry.get("value")
        for objects in isolated.manifests.values()
        for item in objects
        if item["kind"] == "Job"
        for container in item["spec"]["template"]["spec"]["containers"]
        for entry in container["env"]
    }
    assert said["HUB"] == "https://artifacts.corp.internal/hub"
    assert said["PIP_INDEX_URL"] == "https://artifacts.corp.internal/pypi/simple"
    assert said["LLMPERF_SOURCE"].endswith("llmperf.tar.gz")
    assert said["HTTPS_PROXY"] == said["https_proxy"] == "http://proxy.corp.internal:3128"
    assert {".svc", ".amazonaws.com", "169.254.170.23"} <= set(said["NO_PROXY"].split(","))


def test_pods_may_reach_endpoints_mirrors_and_proxy(isolated: Template) -> None:
    policies = {
        item["metadata"]["name"]: item["spec"]["egress"]
        for objects in isolated.manifests.values()
        for item in objects
        if item["kind"] == "NetworkPolicy" and "egress" in item["spec"]
    }
    for name in ("stager-egress", "benchmark-egress"):
        (outside,) = [
            rule
            for rule in policies[name]
            if any(peer.get("ipBlock", {}).get("cidr") == "0.0.0.0/0" for peer in rule["to"])
        ]
        # Endpoints and mirrors have addresses of the VPC's own range.
        assert outside["to"][0]["ipBlock"]["except"] == ["169.254.0.0/16"]
        assert [port["port"] for port in outside["ports"]] == [443, 3128]


def test_an_existing_vpc_gets_no_endpoint_of_ours() -> None:
    made = template(('zone = "us-east-2b"', CLUSTER), *ISOLATED)
    assert made.of_type("AWS::EC2::VPCEndpoint") == {}


@pytest.mark.parametrize(
    "name",
    ["image_prefix", "neuron_chart", "python_index", "model_hub", "llmperf_source", "llmperf_tokenizer"],
)
def test_a_mirror_that_is_missing_is_named(name: str) -> None:
    lines = "".join(line for line in NETWORK.splitlines(keepends=True) if not line.startswith(name))
    with pytest.raises(BadInputError, match=f"network.{name}: is missing"):
        parse(DEFAULT.replace("[serving]", f"{lines}[serving]"))


def test_a_public_api_is_no_way_in() -> None:
    open_api = '[cluster]\npublic_access_cidrs = ["203.0.113.0/24"]\n\n'
    with pytest.raises(BadInputError, match="opens the API to the internet"):
        parse(DEFAULT.replace("[serving]", f"{NETWORK}{open_api}[serving]"))
