"""What an accelerator instance is: every fact of one in one place, so that a new one is a new entry."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Literal

from specdec.catalog.models import MODELS
from specdec.catalog.roofline import limit_step

KEPT_VCPUS = 5
KEPT_GIB = 38
"""Of a node, for everything on it but the servers."""

Purchase = Literal["on-demand", "spot", "reservation", "capacity-block"]

WITHOUT_RESERVATION: tuple[Purchase, ...] = ("on-demand", "spot")
"""Ways to buy that name no reservation."""
"""How capacity is bought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainStep:
    """A published time of a decode step without speculation.

    Attributes:
        model: Hugging Face id of a model of the catalogue, in bf16.
        devices: chips it spanned.
        tensor_parallel_degree: logical cores it spanned.
        sequences: sequences decoded together.
        context: mean tokens in a sequence's cache; 0 where not published.
        seconds: time per token of one sequence.
        source: where this was read, with the date.
    """

    model: str
    devices: int
    tensor_parallel_degree: int
    sequences: int
    context: float
    seconds: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An EC2 instance type with Neuron devices.

    Attributes:
        type: EC2 instance type.
        chip: what its devices are.
        devices: Neuron devices (chips).
        physical_cores_per_device: physical NeuronCores per chip.
        logical_core_sizes: physical cores one logical core may span (LNC), the default first.
        hbm_bytes_per_device: high-bandwidth memory per chip, bytes.
        hbm_bytes_per_second_per_device: memory bandwidth per chip.
        bf16_flops_per_device: dense bf16 operations per second per chip.
        vcpus: vCPUs.
        memory_bytes: host memory, bytes.
        efa_cards: network cards that can carry an EFA interface.
        max_pods: pods the EKS AMI allows with the VPC CNI's defaults.
        claim_sizes: how many neighbouring devices one service may take.
        dra: whether the Neuron DRA driver serves it; else the device plugin must.
        hugepages_mib: memory in 2 MiB pages that a server must ask for, and the node must set aside.
        purchases: ways in which it has been offered.
        quota_on_demand: Service Quotas code of on-demand capacity, in vCPUs; reservations count against it.
        quota_spot: Service Quotas code of spot capacity, in vCPUs.
        quota_blocks: Service Quotas code of concurrent Capacity Blocks; None where no such quota is known.
        largest_prefill: most prompt tokens of one prefill step that have loaded; None where none failed.
        exhausting_prefill: prompt tokens of a prefill graph whose compilation ended the host with NxD
            Inference; None where none did.
        steps: published decode times without speculation.
        unverified: what nobody has been seen to try on it, a sentence each: guesses that a user may run into.
        source: where the figures were read, with the date.
    """

    type: str
    chip: str
    devices: int
    physical_cores_per_device: int
    logical_core_sizes: tuple[int, ...]
    hbm_bytes_per_device: int
    hbm_bytes_per_second_per_device: float
    bf16_flops_per_device: float
    vcpus: int
    memory_bytes: int
    efa_cards: int
    max_pods: int
    claim_sizes: tuple[int, ...]
    dra: bool = True
    hugepages_mib: int = 0
    purchases: tuple[Purchase, ...]
    quota_on_demand: str
    quota_spot: str
    quota_blocks: str | None
    largest_prefill: int | None = None
    exhausting_prefill: int | None = None
    steps: tuple[PlainStep, ...] = ()
    unverified: tuple[str, ...] = ()
    source: str

    @property
    def family(self) -> str:
        """Family as AWS's quotas name it: ``Trn2`` of trn2 and trn2u."""
        return self.type.split(".", 1)[0].rstrip("u").capitalize()

    def logical_cores(self, devices: int, logical_core_size: int) -> int:
        """Logical cores on ``devices`` chips: the highest tensor parallel degree they can carry."""
        return devices * self.physical_cores_per_device // logical_core_size

    def has_neighbours(self, devices: int) -> bool:
        """Whether a claim of so many devices must be kept together: neither one device nor the whole node."""
        return 1 < devices < self.devices

    def server_share(self, devices: int) -> tuple[int, int]:
        """Processors (vCPU) and GiB of memory one server asks for: its share of the node by devices.

        A sixth of the node, or of a small one ``KEPT_VCPUS`` and ``KEPT_GIB``, is for the kubelet, the
        daemons, the mount pod and the companions. Compilation is the peak: it uses host memory.
        """
        share, memory = devices / self.devices, self.memory_bytes / 2**30
        kept = KEPT_GIB + self.devices * self.hugepages_mib / 1024
        return (
            int(share * min(self.vcpus * 5 / 6, self.vcpus - KEPT_VCPUS)),
            int(share * min(memory * 5 / 6, memory - kept)),
        )

    @property
    def compile_workers(self) -> int:
        """Graphs compiled side by side: one for each 128 GiB of host memory, 8 at most, which is the stack's
        own number. More have ended a host of 128 GiB (vllm-project/vllm-neuron, Qwen3.6-35B example).
        """
        return max(1, min(8, self.memory_bytes // 2**30 // 128))

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the memory-bandwidth limit that each published step reached, in the order of ``steps``."""
        return tuple(
            limit_step(
                MODELS[step.model],
                self,
                devices=step.devices,
                tensor_parallel_degree=step.tensor_parallel_degree,
                sequences=step.sequences,
                context=step.context,
            )
            / step.seconds
            for step in self.steps
        )

    @property
    def tuned_share(self) -> float | None:
        """Share of the memory-bandwidth limit that half of the published steps reach; None where none is
        published.
        """
        return median(self.shares) if self.steps else None
