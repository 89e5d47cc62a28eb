"""What a run is said to have run on, against an API that asks for the pod's token."""

from __future__ import annotations

import json
import platform
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import Stubber

from specdec.errors import EnvironmentFault
from specdec.pod import ran
from specdec.pod.api import ClusterApi

if TYPE_CHECKING:
    from mypy_boto3_eks import EKSClient

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NODE = "ip-10-42-130-7.us-east-2.compute.internal"
DIGEST = "public.ecr.aws/neuron/vllm@sha256:" + "a" * 64
LIBRARIES = {"driver": "2.24.7.0", "kernel": "6.12.40", "vllm": "0.9.1"}
SERVICES = {"baseline": "http://qwen-vllm.specdec.svc:8000"}
ADDONS = {"kube-proxy": "v1.35.3-eksbuild.29", "vpc-cni": "v1.22.4-eksbuild.3"}


def pod(name: str, *, ready: bool = True, leaving: bool = False) -> dict[str, Any]:
    """A server's pod as the API shows it."""
    said = {"terminated": {"exitCode": 0, "message": json.dumps(LIBRARIES)}}
    return {
        "metadata": {"name": name, **({"deletionTimestamp": "2026-12-01T00:00:00Z"} if leaving else {})},
        "spec": {"nodeName": NODE},
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "initContainerStatuses": [
                {"name": "restore", "imageID": "x", "state": {"terminated": {"exitCode": 0}}},
                {"name": "versions", "imageID": DIGEST, "state": said},
            ],
            "containerStatuses": [{"name": "keep", "imageID": "y"}, {"name": "server", "imageID": DIGEST}],
        },
    }


NODE_OBJECT = {
    "metadata": {
        "labels": {
            "eks.amazonaws.com/nodegroup": "accelerator-us-east-2b-on-demand",
            "eks.amazonaws.com/nodegroup-image": "ami-0123456789abcdef0",
            "node.kubernetes.io/instance-type": "trn2.48xlarge",
        }
    },
    "status": {
        "nodeInfo": {
            "containerRuntimeVersion": "containerd://2.2.7",
            "kernelVersion": "6.12.40-64.114.amzn2023.x86_64",
            "kubeletVersion": "v1.35.8-eks-abcdef0",
            "osImage": "Amazon Linux 2023.9.20260917",
        }
    },
}
PODS_PATH = "/api/v1/namespaces/specdec/pods?labelSelector=app.kubernetes.io/name%3Dqwen-vllm"


def answering(*pods: dict[str, Any]) -> ran.Get:
    known = {PODS_PATH: {"items": list(pods)}, f"/api/v1/nodes/{NODE}": NODE_OBJECT}
    return lambda path: known[path]


@pytest.fixture
def closed_port(monkeypatch: pytest.MonkeyPatch) -> EKSClient:
    """The pod's own client, of an EKS where nobody answers."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    return ran.client(boto3.Session("x", "y"), "us-east-2")


@pytest.fixture
def eks() -> EKSClient:
    """A client that answers, checked against its own model."""
    made = ran.client(boto3.Session("x", "y"), "us-east-2")
    stub = Stubber(made)
    stub.activate()
    stub.add_response("describe_nodegroup", {"nodegroup": {"releaseVersion": "1.35.8-20260917"}})
    stub.add_response("list_addons", {"addons": list(ADDONS)})
    for name, version in ADDONS.items():
        stub.add_response("describe_addon", {"addon": {"addonName": name, "addonVersion": version}})
    return made


def test_a_run_keeps_what_it_ran_on(eks: EKSClient) -> None:
    api = answering(pod("old", leaving=True), pod("unready", ready=False), pod("now"))
    found = ran.ran(SERVICES, cluster="c", eks=eks, api=lambda: api)
    assert found == {
        "servers": {
            "baseline": {
                "image": DIGEST,
                "libraries": LIBRARIES,
                "node": {
                    "ami": "ami-0123456789abcdef0",
                    "ami_release": "1.35.8-20260917",
                    "container_runtime": "containerd://2.2.7",
                    "instance_type": "trn2.48xlarge",
                    "kernel": "6.12.40-64.114.amzn2023.x86_64",
                    "kubelet": "v1.35.8-eks-abcdef0",
                    "os": "Amazon Linux 2023.9.20260917",
                },
            }
        },
        "addons": ADDONS,
    }


def test_what_cannot_be_found_out_is_told_and_ends_nothing(closed_port: EKSClient) -> None:
    """No token, no network, no answer: the rest of the run goes on."""
    found = ran.ran(SERVICES, cluster="c", eks=closed_port, api=lambda: ClusterApi.of({}).call)
    problem = "the cluster's API cannot be asked: KUBERNETES_SERVICE_HOST is not set"
    assert found["servers"] == {"baseline": {"problem": problem}}
    assert "Could not connect" in found["addons"]["problem"]
    two = ran.ran(SERVICES, cluster="c", eks=closed_port, api=lambda: answering(pod("a"), pod("b")))
    assert two["servers"] == {"baseline": {"problem": "2 ready pods of qwen-vllm"}}


class Handler(BaseHTTPRequestHandler):
    """Answers one path, to the right token."""

    def do_GET(self) -> None:
        allowed = self.headers["Authorization"] == "Bearer the-token"
        body = json.dumps({"items": []} if allowed else {}).encode()
        self.send_response(200 if allowed else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        pass


@pytest.fixture
def api_server(tmp_path: Path) -> Generator[tuple[int, Path], None, None]:
    """Port of an HTTPS server, and a folder like the one that Kubernetes mounts, with its authority."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl on this machine to make a certificate with")
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", "key.pem", "-out", "ca.crt", "-days", "2", "-subj", "/CN=api"]
    subprocess.run(
        [*command, "-addext", "subjectAltName=IP:127.0.0.1"], cwd=tmp_path, check=True, capture_output=True
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.crt", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, tmp_path
    server.shutdown()
    server.server_close()


def test_the_api_is_asked_with_the_pods_own_token_and_authority(
    api_server: tuple[int, Path], closed_port: EKSClient
) -> None:
    port, folder = api_server
    (folder / "namespace").write_text("specdec\n", encoding="utf-8")
    host = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}
    (folder / "token").write_text("the-token\n", encoding="utf-8")
    api = ClusterApi.of(host, folder)
    assert api.call("/api") == {"items": []}
    # The kubelet renews the token in its file.
    (folder / "token").write_text("another", encoding="utf-8")
    refused = ran.ran(SERVICES, cluster="c", eks=closed_port, api=lambda: api.call)
    assert refused["servers"]["baseline"]["problem"].endswith("HTTP 403: Forbidden")


def test_the_pod_finds_the_api_of_its_cluster(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(EnvironmentFault, match="no token at"):
        ClusterApi.of(environment, tmp_path)
    for name, text in (("token", "t"), ("namespace", "specdec\n"), ("ca.crt", "")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    api = ClusterApi.of(environment, tmp_path)
    assert (api.url, api.namespace) == ("https://[fd00::1]:443", "specdec")
    assert api.authority == tmp_path / "ca.crt"


SCRIPTS = ROOT / "charts" / "scripts"


def tell(folder: Path, environment: dict[str, str], *, shebang: str | None = None) -> Any:
    """Runs the init container's script in an image whose vLLM has this first line, and returns its end."""
    if shebang is not None:
        vllm = folder / "bin" / "vllm"
        vllm.parent.mkdir()
        vllm.write_text(f"{shebang}\n", encoding="utf-8")
        vllm.chmod(0o755)
    path = f"{folder / 'bin'}:/usr/bin:/bin"
    command = ["bash", str(SCRIPTS / "versions.sh")]
    return subprocess.run(command, env={"PATH": path, **environment}, check=False, capture_output=True)


@pytest.mark.parametrize("driver", [True, False])
@pytest.mark.parametrize("shebang", [f"#!{sys.executable}", f"#!/usr/bin/env {sys.executable}", None])
def test_the_servers_image_and_node_tell_their_versions(
    tmp_path: Path, driver: bool, shebang: str | None
) -> None:
    if driver:
        (tmp_path / "driver").write_text("2.24.7.0\n", encoding="utf-8")
    words = tmp_path / "words"
    environment = {"DRIVER": str(tmp_path / "driver"), "WORDS": str(words)}
    assert tell(tmp_path, environment, shebang=shebang).returncode == 0
    said = json.loads(words.read_text(encoding="utf-8"))
    assert said["kernel"] == platform.release()
    assert said["driver"].startswith("2.24.7.0" if driver else "unknown: ")
    assert len(words.read_bytes()) < 4096, "Kubernetes keeps no more of a container's last words"


@pytest.mark.parametrize("shebang", [f"#!{sys.executable}", "#!/nowhere/python"])
def test_a_server_starts_although_its_versions_cannot_be_told(tmp_path: Path, shebang: str) -> None:
    ended = tell(tmp_path, {"DRIVER": "/nowhere", "WORDS": str(tmp_path / "no" / "folder")}, shebang=shebang)
    assert ended.returncode == 0
    assert b"told" in ended.stdout + ended.stderr
