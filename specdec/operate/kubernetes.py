"""Asks the cluster's own API through ``kubectl``, with credentials made for the one call."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from specdec.aws import calls, code
from specdec.errors import EnvironmentFault, SpecdecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdec.deployed.clients import Clients
    from specdec.experiment.fields import Experiment

NAMESPACE = "specdec"
"""Kubernetes namespace of everything in the experiment; a test holds it equal to the charts' one."""

_TOKEN_SECONDS = 60
_CALL_SECONDS = 30


class Unreachable(EnvironmentFault):
    """The cluster's API cannot be asked from here; AWS's own facts still can."""


class Kubectl:
    """``kubectl`` against the cluster of one stack.

    Raises:
        Unreachable: no kubectl on this machine, or no such cluster.
        NoAccessError: the caller may not describe the cluster.
    """

    def __init__(self, experiment: Experiment, region: str, clients: Clients) -> None:
        executable = shutil.which("kubectl")
        if executable is None:
            raise Unreachable(
                "kubectl is not installed", remedy="Install kubectl, within one minor version of the cluster"
            )
        self._kubectl = executable
        self._clients = clients
        self._name = experiment.cluster_name(region)
        with calls():
            try:
                cluster = clients("eks").describe_cluster(name=self._name)["cluster"]
            except ClientError as error:
                if code(error) != "ResourceNotFoundException":
                    raise
                raise Unreachable(
                    f"there is no cluster {self._name}", remedy=f"uv run npx cdk deploy {self._name}"
                ) from None
        self._endpoint = str(cluster.get("endpoint", ""))
        self._authority = str(cluster.get("certificateAuthority", {}).get("data", ""))

    def __call__(self, arguments: Sequence[str], *, stdin: str | None = None) -> str:
        """Runs one kubectl command in the experiment's namespace and returns what it printed.

        Raises:
            Unreachable: the API did not answer in time.
            SpecdecError: kubectl failed; the message is its own.
        """
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "kubeconfig"
            config.touch(mode=0o600)
            config.write_text(json.dumps(self._config(), allow_nan=False), encoding="utf-8")
            command = [
                self._kubectl,
                "--kubeconfig",
                str(config),
                "--namespace",
                NAMESPACE,
                f"--request-timeout={_CALL_SECONDS - 5}s",
                *arguments,
            ]
            try:
                ended = subprocess.run(
                    command,
                    input=stdin,
                    capture_output=True,
                    text=True,
                    timeout=_CALL_SECONDS,
                    env={**os.environ, "KUBECONFIG": str(config)},
                )
            except subprocess.TimeoutExpired:
                raise Unreachable(f"the API of {self._name} does not answer", remedy=_PRIVATE) from None
        if ended.returncode:
            message = ended.stderr.strip() or f"kubectl ended with {ended.returncode}"
            if any(
                sign in message
                for sign in (
                    "i/o timeout",
                    "no such host",
                    "connection refused",
                    "context deadline",
                    "Client.Timeout",
                )
            ):
                raise Unreachable(
                    f"the API of {self._name} cannot be reached: {message.splitlines()[-1]}", remedy=_PRIVATE
                )
            if "x509" in message or "certificate" in message:
                raise Unreachable(
                    f"the API of {self._name} is not who answers: {message.splitlines()[-1]}",
                    remedy=_INTERCEPTED,
                )
            raise SpecdecError(
                f"kubectl {' '.join(arguments[:2])}: {message}",
                remedy="Is this identity in cluster.admin_principal_arns?",
            )
        return ended.stdout

    def items(self, kind: str) -> list[dict[str, Any]]:
        """All objects of a kind in the namespace."""
        answer: dict[str, Any] = json.loads(self(["get", kind, "--output", "json"]))
        return list(answer["items"])

    def _config(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "specdec",
            "clusters": [
                {
                    "name": "specdec",
                    "cluster": {"server": self._endpoint, "certificate-authority-data": self._authority},
                }
            ],
            "users": [{"name": "specdec", "user": {"token": token(self._clients, self._name)}}],
            "contexts": [{"name": "specdec", "context": {"cluster": "specdec", "user": "specdec"}}],
        }


_PRIVATE = (
    "The endpoint is private unless cluster.public_access_cidrs holds this address; run the command inside"
    " the VPC, or add it"
)


_INTERCEPTED = (
    "Something on the way answers with a certificate of its own, like a company's proxy: put the endpoint's"
    " host into NO_PROXY, or use another network. No setting of the experiment mends this"
)


def token(clients: Clients, cluster: str) -> str:
    """A bearer token of EKS: a presigned GetCallerIdentity request that names the cluster in a signed header.

    Source: the token format of aws-iam-authenticator, ``k8s-aws-v1.`` and the URL in base64 without padding.
    """
    sts = clients.fresh("sts")

    def name_cluster(request: Any, **_: Any) -> None:
        request.headers["x-k8s-aws-id"] = cluster

    # Before signing, so that the signature covers the header.
    sts.meta.events.register("before-sign.sts.GetCallerIdentity", name_cluster)
    with calls():
        url = str(
            sts.generate_presigned_url("get_caller_identity", ExpiresIn=_TOKEN_SECONDS, HttpMethod="GET")
        )
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
