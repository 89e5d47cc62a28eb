"""Facts about accelerator instances, each with its source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An EC2 instance type with Neuron devices.

    Attributes:
        type: EC2 instance type.
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
        claim_sizes: how many neighbouring devices one claim may take.
        source: where the figures were read, with the date.
    """

    type: str
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
    source: str

    def logical_cores(self, devices: int, logical_core_size: int) -> int:
        """Logical cores on ``devices`` chips: the highest tensor parallel degree they can carry."""
        return devices * self.physical_cores_per_device // logical_core_size


INSTANCES = {
    instance.type: instance
    for instance in (
        Instance(
            type="trn2.48xlarge",
            devices=16,
            physical_cores_per_device=8,
            logical_core_sizes=(2, 1),
            hbm_bytes_per_device=96 * 2**30,
            hbm_bytes_per_second_per_device=2.9e12,
            bf16_flops_per_device=667e12,
            vcpus=192,
            memory_bytes=2048 * 2**30,
            efa_cards=16,
            max_pods=100,
            claim_sizes=(1, 4, 8, 16),
            source=(
                "AWS Neuron SDK docs, trn2-arch.rst and trainium2.rst at 81ce03ae (2026-08-21); max_pods from"
                " amazon-eks-ami @81fec2e (2026-07); claim sizes from the DRA docs, dra.rst (2026-06-05)"
            ),
        ),
    )
}
