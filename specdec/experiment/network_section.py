"""What pods and nodes may reach, and where things come from instead of the internet."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field

from specdec.experiment.sections import Section

PUBLIC_REGISTRY = "public.ecr.aws/"

AWS_DIRECTLY = (".amazonaws.com", ".svc", ".cluster.local", "169.254.169.254", "169.254.170.23", "127.0.0.1")
"""What a proxy is not asked for: AWS over its endpoints, the cluster, instance metadata, Pod Identity."""

_URL = r"^https?://[^\s/@?#]+(/[^\s@?#]*)?$"


class Network(Section):
    """Ways to the outside. ``{region}`` in a value stands for the region of the stack."""

    internet: bool = Field(
        default=True,
        description=(
            "whether there is a way to the internet; without one everything comes from the mirrors below, and"
            " a new VPC has endpoints instead of a NAT gateway"
        ),
    )
    image_prefix: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9.{}-]+(:\d+)?(/[a-z0-9._/-]+)?$",
        description=(
            "registry and path that stand for public.ecr.aws in front of every image, as an ECR pull-through"
            " cache has it: `111122223333.dkr.ecr.{region}.amazonaws.com/ecr-public`; AWS documents that a"
            " cache's first pull of an image needs a way to the internet, so without one pull each image once"
            " from outside"
        ),
    )
    neuron_chart: str | None = Field(
        default=None,
        pattern=r"^oci://[a-z0-9.{}-]+(:\d+)?/[a-z0-9._/-]+$",
        description="Neuron's Helm chart in a registry of yours: in ECR, or readable without a login",
    )
    python_index: str | None = Field(
        default=None, pattern=_URL, description="package index (PEP 503) of the benchmark pod"
    )
    model_hub: str | None = Field(
        default=None, pattern=_URL, description="mirror with Hugging Face's API, which models are staged from"
    )
    llmperf_source: str | None = Field(
        default=None,
        pattern=_URL,
        description="archive of LLMPerf's source at the pinned commit; its content is checked",
    )
    llmperf_tokenizer: str | None = Field(
        default=None,
        pattern=_URL,
        description="folder with the files of LLMPerf's tokenizer",
    )
    proxy: str | None = Field(
        default=None,
        pattern=_URL,
        description="HTTP proxy of the staging and benchmark pods, not for AWS, the cluster and `no_proxy`",
    )
    no_proxy: tuple[str, ...] = Field(
        default=(), description="further hosts and domains that the pods reach without the proxy"
    )

    def image(self, name: str, region: str) -> str:
        """Where an image is pulled from: its own registry, or the mirror of it."""
        if self.image_prefix is None or not name.startswith(PUBLIC_REGISTRY):
            return name
        return f"{self._of(self.image_prefix, region).rstrip('/')}/{name.removeprefix(PUBLIC_REGISTRY)}"

    def chart(self, address: str, region: str) -> str:
        """Where Neuron's chart is pulled from."""
        return address if self.neuron_chart is None else self._of(self.neuron_chart, region)

    @property
    def open_ports(self) -> tuple[int, ...]:
        """Ports that mirrors and proxy listen on, ascending; empty without mirrors and proxy."""
        named = (self.python_index, self.model_hub, self.llmperf_source, self.llmperf_tokenizer, self.proxy)
        urls = [urlsplit(url.replace("{region}", "region")) for url in named if url is not None]
        return tuple(sorted({url.port or (443 if url.scheme == "https" else 80) for url in urls}))

    def staging(self, region: str) -> dict[str, str]:
        """Environment of the staging pods."""
        hub = {} if self.model_hub is None else {"HUB": self._of(self.model_hub, region).rstrip("/")}
        return hub | self._proxied(region)

    def benchmark(self, region: str) -> dict[str, str]:
        """Environment of the benchmark pod."""
        named = {
            "PIP_INDEX_URL": self.python_index,
            "LLMPERF_SOURCE": self.llmperf_source,
            "LLMPERF_TOKENIZER": self.llmperf_tokenizer,
        }
        mirrors = {name: self._of(value, region) for name, value in named.items() if value is not None}
        return mirrors | self._proxied(region)

    def _proxied(self, region: str) -> dict[str, str]:
        if self.proxy is None:
            return {}
        address, without = self._of(self.proxy, region), ",".join((*AWS_DIRECTLY, *self.no_proxy))
        # Programs differ in which spelling they read.
        return {
            "HTTPS_PROXY": address,
            "HTTP_PROXY": address,
            "NO_PROXY": without,
            "https_proxy": address,
            "http_proxy": address,
            "no_proxy": without,
        }

    @staticmethod
    def _of(value: str, region: str) -> str:
        return value.replace("{region}", region)
