"""The accelerator instances, each with its source."""

from __future__ import annotations

from specdec.catalog.chips import Instance, PlainStep

_GIB = 2**30
_PODS = "max_pods from amazon-eks-ami @81fec2e (2026-07)"
_DRA = "claim sizes from the Neuron DRA docs, dra.rst (2026-06-05)"
_TRN_QUOTA = "L-2C3B7624"
"""Running On-Demand Trn instances. Source: Service Quotas, service ec2."""

_TRN_SPOT_QUOTA = "L-6B0D517C"
"""All Trn spot instance requests. Source: Service Quotas, service ec2, noted by foxl-ai/kiln."""

_TRN2_BLOCKS = "L-64569A79"
"""Concurrent Trn2 Capacity Blocks per account; the default is 0. Source: Service Quotas, service ec2."""

_KILN = "foxl-ai/kiln, bench/results/2026-10-07-* @f5a7faf: vllm-neuron 0.24, SDK 2.32, batch 1"

_AS_TRN2 = "pods and claim sizes, taken to be those of trn2.48xlarge"

INSTANCES = {
    instance.type: instance
    for instance in (
        Instance(
            type="trn2.48xlarge",
            chip="Trainium2",
            devices=16,
            physical_cores_per_device=8,
            logical_core_sizes=(2, 1),
            hbm_bytes_per_device=96 * _GIB,
            hbm_bytes_per_second_per_device=2.9e12,
            bf16_flops_per_device=667e12,
            vcpus=192,
            memory_bytes=2048 * _GIB,
            efa_cards=16,
            max_pods=100,
            claim_sizes=(1, 4, 8, 16),
            purchases=("on-demand", "reservation", "capacity-block", "spot"),
            quota_on_demand=_TRN_QUOTA,
            quota_spot=_TRN_SPOT_QUOTA,
            quota_blocks=_TRN2_BLOCKS,
            steps=(
                PlainStep(
                    model="Qwen/Qwen3-32B",
                    devices=8,
                    tensor_parallel_degree=32,
                    sequences=4,
                    context=0,
                    seconds=0.045,
                    source="AWS machine learning blog (2026-04-15), read through summaries",
                ),
                PlainStep(
                    model="Qwen/Qwen3-32B",
                    devices=16,
                    tensor_parallel_degree=64,
                    sequences=1,
                    context=384,
                    seconds=0.0098,
                    source="Neuron docs, sd-inference-tutorial.rst (2025-12-02): 102.3 tokens a second",
                ),
                PlainStep(
                    model="meta-llama/Llama-3.3-70B-Instruct",
                    devices=16,
                    tensor_parallel_degree=64,
                    sequences=1,
                    context=0,
                    seconds=0.0196,
                    source="Neuron docs, llama70b_perf_comparison.csv (2024-12)",
                ),
                PlainStep(
                    model="meta-llama/Llama-3.1-405B-Instruct",
                    devices=16,
                    tensor_parallel_degree=64,
                    sequences=1,
                    context=0,
                    seconds=0.0379,
                    source="Neuron docs, llama405b_perf_comparison.csv (2024-12)",
                ),
                PlainStep(
                    model="meta-llama/Llama-3.1-8B-Instruct",
                    devices=2,
                    tensor_parallel_degree=8,
                    sequences=2,
                    context=0,
                    seconds=0.01052,
                    source="Neuron docs, EAGLE3 tutorial for Llama 3.1 (SDK 2.32)",
                ),
            ),
            source=(
                "AWS Neuron SDK docs, trn2-arch.rst and trainium2.rst at 81ce03ae (2026-08-21);"
                f" {_PODS}; {_DRA}"
            ),
        ),
        Instance(
            type="trn2u.48xlarge",
            chip="Trainium2",
            devices=16,
            physical_cores_per_device=8,
            logical_core_sizes=(2, 1),
            hbm_bytes_per_device=96 * _GIB,
            hbm_bytes_per_second_per_device=2.9e12,
            bf16_flops_per_device=667e12,
            vcpus=192,
            memory_bytes=2048 * _GIB,
            efa_cards=16,
            max_pods=100,
            claim_sizes=(1, 4, 8, 16),
            purchases=("on-demand", "reservation", "capacity-block", "spot"),
            quota_on_demand=_TRN_QUOTA,
            quota_spot=_TRN_SPOT_QUOTA,
            quota_blocks=_TRN2_BLOCKS,
            unverified=(_AS_TRN2,),
            source="AWS Neuron SDK docs, trn2-arch.rst at 81ce03ae (2026-08-21)",
        ),
        Instance(
            type="trn2.3xlarge",
            chip="Trainium2",
            devices=1,
            physical_cores_per_device=8,
            logical_core_sizes=(2, 1),
            hbm_bytes_per_device=96 * _GIB,
            hbm_bytes_per_second_per_device=2.9e12,
            bf16_flops_per_device=667e12,
            vcpus=12,
            memory_bytes=128 * _GIB,
            efa_cards=1,
            max_pods=30,
            claim_sizes=(1,),
            hugepages_mib=5120,
            purchases=("on-demand", "reservation", "capacity-block", "spot"),
            quota_on_demand=_TRN_QUOTA,
            quota_spot=_TRN_SPOT_QUOTA,
            quota_blocks=_TRN2_BLOCKS,
            largest_prefill=2048,
            exhausting_prefill=16384,
            steps=(
                PlainStep(
                    model="Qwen/Qwen3-32B",
                    devices=1,
                    tensor_parallel_degree=4,
                    sequences=1,
                    context=2048,
                    seconds=0.0498,
                    source=_KILN,
                ),
                PlainStep(
                    model="Qwen/Qwen3-8B",
                    devices=1,
                    tensor_parallel_degree=4,
                    sequences=1,
                    context=0,
                    seconds=0.0197,
                    source=_KILN,
                ),
                PlainStep(
                    model="meta-llama/Llama-3.1-8B-Instruct",
                    devices=1,
                    tensor_parallel_degree=4,
                    sequences=1,
                    context=0,
                    seconds=0.01008,
                    source=f"{_KILN}, eagle3-trn2-llama31: 99.2 tokens a second",
                ),
            ),
            unverified=(
                "5120 MiB in 2 MiB pages, the EKS guide's figure for nodes with EFA: that a pod needs some"
                " has been seen, how many has not",
                "a claim of the one device without attributes: the DRA docs name the type and show no claim",
            ),
            source=(
                "foxl-ai/kiln docs/research/trn2-trn3.md @a04d1fa (EC2 API, 2026-10-03); chip figures of"
                f" Trainium2; {_PODS}; a prefill chunk of 8192 did not load and one of 2048 did (kiln"
                " @f5a7faf, 2026-10-07); pods need 2 MiB pages: littlemex/zenn, eks-neuron-trainium (2026);"
                " compiling a prefill of 16384 for Gemma-4-31B ran out of the host's 128 GB (NxD Inference"
                " contrib @65693b9, 2026-04-23)"
            ),
        ),
        Instance(
            type="trn1.32xlarge",
            chip="Trainium",
            devices=16,
            physical_cores_per_device=2,
            logical_core_sizes=(1,),
            hbm_bytes_per_device=32 * _GIB,
            hbm_bytes_per_second_per_device=820 * _GIB,
            bf16_flops_per_device=190e12,
            vcpus=128,
            memory_bytes=512 * _GIB,
            efa_cards=8,
            max_pods=247,
            claim_sizes=(1, 4, 8, 16),
            purchases=("on-demand", "reservation", "capacity-block", "spot"),
            quota_on_demand=_TRN_QUOTA,
            quota_spot=_TRN_SPOT_QUOTA,
            quota_blocks=None,
            unverified=("claim sizes, taken to be those of trn2.48xlarge",),
            source=f"AWS Neuron SDK docs, trn1-arch.rst at 81ce03ae (2026-08-21); {_PODS}",
        ),
        Instance(
            type="inf2.48xlarge",
            chip="Inferentia2",
            devices=12,
            physical_cores_per_device=2,
            logical_core_sizes=(1,),
            hbm_bytes_per_device=32 * _GIB,
            hbm_bytes_per_second_per_device=820 * _GIB,
            bf16_flops_per_device=190e12,
            vcpus=192,
            memory_bytes=768 * _GIB,
            efa_cards=0,
            max_pods=737,
            claim_sizes=(1, 4, 8, 12),
            dra=False,
            purchases=("on-demand", "reservation", "spot"),
            quota_on_demand="L-1945791B",
            quota_spot="L-B5D1601B",
            quota_blocks=None,
            unverified=(
                "which sets of devices are neighbours",
                "the quotas' codes, Running On-Demand and All Inf Spot: general knowledge, not looked up",
            ),
            source=(
                f"AWS Neuron SDK docs, inf2-arch.rst at 81ce03ae (2026-08-21); {_PODS}; the DRA docs name"
                " Trainium alone"
            ),
        ),
    )
}
"""By EC2 instance type. Trainium3 has no entry: EC2's API knows no type of it that can be launched, only
UltraServers (foxl-ai/kiln docs/research/trn2-trn3.md @a04d1fa, 2026-10-03).
"""
