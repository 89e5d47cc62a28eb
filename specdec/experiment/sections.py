"""The sections of an experiment file: one class for each table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from specdec.catalog.chips import Purchase
from specdec.catalog.images import MODES
from specdec.experiment.loads import SELF_CHECK_SHARE

Lane = Literal["exact", "llmperf"]

NAME = r"^[a-z][a-z0-9-]*[a-z0-9]$"
"""A name that Kubernetes and CloudFormation take."""


class Section(BaseModel):
    """A table of the experiment file. A misspelt key in an hour-long deploy is expensive, so unknown keys are
    refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


Override = bool | int | float | str | dict[str, bool | int | float | str]
"""A value the serving library takes: a scalar, or one table of scalars."""


ROLE_ARN = r"^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+$"
"""Pattern of the ARN of an IAM role, with its path."""


def resource_id(prefix: str) -> str:
    """Pattern of an EC2 resource id: 17 hexadecimal digits, or the 8 of resources made before 2018 (EC2 user
    guide, resource IDs).

    Args:
        prefix: kind of resource, such as ``vpc``.
    """
    return rf"^{prefix}-([0-9a-f]{{8}}|[0-9a-f]{{17}})$"


class Cluster(Section):
    """The Kubernetes cluster."""

    kubernetes_version: Literal["1.34", "1.35", "1.36"] = Field(
        default="1.35",
        description=(
            "Kubernetes minor version. 1.34 is the first with Dynamic Resource Allocation as a stable API;"
            " the node image of 1.36 brings a newer kernel and driver than the published stack was shown with"
        ),
    )
    vpc_cidr: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+\.\d+/\d+$")] = Field(
        default="10.42.0.0/16", description="address range of the VPC"
    )
    public_access_cidrs: tuple[str, ...] = Field(
        default=(),
        description=(
            "address ranges that may reach the API endpoint from the internet; none leaves it private"
        ),
    )
    admin_principal_arns: tuple[str, ...] = Field(
        default=(),
        description=(
            "IAM principals that become cluster administrators; without one, only the deployment itself"
            " gets in"
        ),
    )
    viewer_principal_arns: tuple[str, ...] = Field(
        default=(),
        description="IAM principals that may read everything in the cluster except secrets",
    )
    log_retention_days: Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365] = Field(
        default=30, description="days that control-plane, container and flow logs are kept"
    )
    addon_versions: dict[str, str] = Field(
        default_factory=dict,
        description=(
            "EKS add-on to version; one left out gets that of the catalogue for the Kubernetes version"
        ),
    )
    ami_release: str | None = Field(
        default=None,
        pattern=r"^\d+\.\d+\.\d+-\d{8}$",
        description=(
            "release of the EKS node image, like 1.35.8-20260917; a newer one moves the nodes to it, one left"
            " out is the newest when a node group is made, and stays"
        ),
    )


class Capacity(Section):
    """The accelerator nodes."""

    instance_type: str = Field(
        default="trn2.48xlarge", description="EC2 instance type of the accelerator nodes"
    )
    purchase: Purchase = Field(
        default="on-demand",
        description=(
            "how the capacity is bought; `reservation` and `capacity-block` need"
            " placement.<region>.reservation_id; AWS may take a `spot` node back at any time, and"
            " `specdec run --resume RUN` then goes on with the run"
        ),
    )
    desired_nodes: int = Field(
        default=0,
        ge=0,
        description=(
            "accelerator nodes to start with; 0 deploys everything else and stages the models, and"
            " `specdec nodes up` starts them"
        ),
    )
    max_nodes: int = Field(default=1, ge=1, description="upper limit of the node group")
    root_volume_gib: int = Field(
        default=500, ge=100, le=16384, description="root volume in GiB; Neuron images are tens of GiB each"
    )
    efa: bool = Field(
        default=False, description="attach EFA interfaces; an experiment on one node needs none"
    )
    system_instance_type: str = Field(
        default="m7i.2xlarge", description="EC2 instance type of the node for system pods and the benchmark"
    )
    allow_unlisted_region: bool = Field(
        default=False,
        description="deploy to a region that the catalogue does not know to offer the instance type",
    )


class Placement(Section):
    """Where in one region the accelerator nodes are."""

    zone: str = Field(description="availability zone of the accelerator node group")
    reservation_id: str | None = Field(
        default=None,
        pattern=resource_id("cr"),
        description="capacity reservation or Capacity Block to launch into",
    )
    zones: tuple[str, ...] = Field(
        default=(),
        max_length=5,
        description=(
            "zones of the network, `zone` among them, in an order that never changes: the control plane and"
            " the system node are in the first two, and each has a subnet for accelerator nodes; else those"
            " that the catalogue knows"
        ),
    )
    vpc_id: str | None = Field(
        default=None,
        pattern=resource_id("vpc"),
        description="existing VPC, used as it is instead of a new one; needs `subnets`",
    )
    subnets: dict[str, str] = Field(
        default_factory=dict,
        description=(
            "private subnet of `vpc_id` by zone, in an order that never changes: the control plane and the"
            " system node are in the first two; instead of `zones`"
        ),
    )
    cluster_name: str | None = Field(
        default=None,
        pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$",
        description=(
            "EKS cluster that exists, used as it is instead of a new one; needs `vpc_id`, `subnets` and"
            " `cluster_security_group_id`"
        ),
    )
    cluster_security_group_id: str | None = Field(
        default=None,
        pattern=resource_id("sg"),
        description="the group that EKS made for `cluster_name`, which opens its API to our kubectl function",
    )
    cluster_addons: tuple[str, ...] = Field(
        default=("coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"),
        description="add-ons that `cluster_name` has; they are left alone, and the others become the stack's",
    )
    cluster_has_neuron: bool = Field(
        default=False,
        description=(
            "whether `cluster_name` hands out Neuron devices already, in the way of serving.allocation; else"
            " the stack installs Neuron's chart"
        ),
    )
    kubectl_role_arn: str | None = Field(
        default=None,
        pattern=ROLE_ARN,
        description=(
            "role of yours that may administer `cluster_name` and that Lambda may assume; else a role of the"
            " stack gets an access entry"
        ),
    )
    bucket: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
        description=(
            "bucket kept from an earlier stack, used instead of a new one; its models and artifacts need not"
            " be made again"
        ),
    )
    kms_key_arn: str | None = Field(
        default=None,
        pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[0-9a-f-]+$",
        description=(
            "key of your own for the bucket, Kubernetes secrets and logs; else S3's and CloudWatch's own, and"
            " a key of the stack for secrets"
        ),
    )

    @property
    def bought(self) -> bool:
        """Whether ``reservation_id`` names capacity that somebody has: an example file has only zeros."""
        return self.reservation_id is not None and self.reservation_id.removeprefix("cr-").strip("0") != ""


class Account(Section):
    """Rules of the account. Unset fields follow the defaults of AWS and the CDK."""

    id: str | None = Field(
        default=None,
        pattern=r"^\d{12}$",
        description="the one account it may be deployed to; other credentials are refused",
    )
    permissions_boundary: str | None = Field(
        default=None,
        pattern=r"^arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+$",
        description="ARN of a managed policy that becomes the permissions boundary of every role",
    )
    role_path: str = Field(
        default="/", pattern=r"^/([\w+=,.@-]+/)*$", description="path of every role, like /teams/inference/"
    )
    role_prefix: str = Field(
        default="",
        pattern=r"^[\w+=,.@-]{0,20}$",
        description="start of every role's name, which is then fixed; else CloudFormation chooses the names",
    )
    tags: dict[str, str] = Field(
        default_factory=dict,
        description=(
            "tags that the account requires on everything, instances and volumes too; on a deployed stack"
            " they cannot change"
        ),
    )
    bootstrap_qualifier: str = Field(
        default="hnb659fds",
        pattern=r"^[A-Za-z0-9_-]{1,10}$",
        description="qualifier that the account was bootstrapped with",
    )
    deploy_role_arn: str | None = Field(
        default=None,
        pattern=ROLE_ARN,
        description="role that the CDK assumes to deploy; else the bootstrap's",
    )
    execution_role_arn: str | None = Field(
        default=None,
        pattern=ROLE_ARN,
        description="role that CloudFormation acts with; else the bootstrap's",
    )
    termination_protection: bool = Field(
        default=False, description="refuse to delete the stack until this is false again and deployed"
    )


class Serving(Section):
    """What both services have in common."""

    stack: str = Field(
        default="vllm-0.9.1-sdk-2.26.1", description="serving stack: a name from `specdec stacks`"
    )
    target: str = Field(default="Qwen/Qwen3-32B", description="target model")
    tensor_parallel_degree: int = Field(default=32, ge=1, description="logical cores one service spans")
    logical_core_size: int = Field(
        default=2, ge=1, description="physical NeuronCores per logical core (LNC), as the instance offers it"
    )
    devices: int = Field(default=8, ge=1, description="neighbouring Neuron devices per service")
    max_model_len: int = Field(
        default=1024, ge=128, description="longest prompt plus output, tokens; compiled into the graph"
    )
    max_num_seqs: int = Field(
        default=4, ge=1, description="sequences decoded together; compiled into the graph"
    )
    prefill_tokens: int = Field(
        default=2048,
        ge=128,
        description=(
            "largest number of prompt tokens in one prefill step; for the native stacks, which compile it in"
        ),
    )
    async_scheduling: bool = Field(
        default=False,
        description=(
            "asynchronous scheduling on the native stacks; speculation turns it off, so that it is off for"
            " every service unless a variant says otherwise"
        ),
    )
    environment: dict[str, str] = Field(
        default_factory=dict,
        description="further environment variables of every server; part of what names its artifact",
    )
    sequence_parallel: bool = Field(
        default=False,
        description=(
            "sequence parallelism in prefill, given to every service since the library's own defaults differ"
        ),
    )
    overrides: dict[str, Override] = Field(
        default_factory=dict,
        description="further settings of the serving library, by its own names, for every service",
    )
    allocation: Literal["dra", "device-plugin"] = Field(
        default="dra",
        description=(
            "device allocation: Dynamic Resource Allocation, or the Neuron device plugin with its scheduler"
        ),
    )
    neighbours: Literal["topology", "devicegroup", "none"] = Field(
        default="topology",
        description=(
            "device attribute that keeps a service's devices together: `devicegroup` is documented for nodes"
            " with EFA only"
        ),
    )
    startup_minutes: int = Field(
        default=180,
        ge=5,
        le=720,
        description="minutes a server may take to load, or to compile first, before it is restarted",
    )
    security: Literal["strict", "capabilities", "privileged"] = Field(
        default="strict",
        description=(
            "rights of the server's container: no capability and no new privilege; `capabilities` gives the"
            " image's own with IPC_LOCK and SYS_NICE; `privileged` is what Neuron's examples run this image"
            " with"
        ),
    )
    hf_token_secret: str | None = Field(
        default=None,
        min_length=1,
        description=(
            "name or ARN of a Secrets Manager secret that holds a Hugging Face token, for gated models"
        ),
    )

    def settings(self, variant: Variant) -> VariantSettings:
        """What a variant runs with."""
        return VariantSettings(
            tensor_parallel_degree=variant.tensor_parallel_degree or self.tensor_parallel_degree,
            devices=variant.devices or self.devices,
            max_num_seqs=variant.max_num_seqs or self.max_num_seqs,
            async_scheduling=(
                self.async_scheduling if variant.async_scheduling is None else variant.async_scheduling
            ),
            overrides={**self.overrides, **variant.overrides},
        )

    def loaded_models(self, variants: Iterable[Variant]) -> tuple[str, ...]:
        """Hugging Face ids of all models that the services of these variants load: the target first, each
        draft once.
        """
        drafts = [variant.draft for variant in variants if variant.draft]
        return tuple(dict.fromkeys([self.target, *drafts]))


@dataclass(frozen=True, slots=True)
class VariantSettings:
    """What one variant runs with: its own value where it has one, else that of ``serving``.

    Attributes:
        tensor_parallel_degree: logical cores the service spans.
        devices: Neuron devices it claims.
        max_num_seqs: sequences decoded together.
        async_scheduling: whether the host prepares a step while the devices run the one before.
        overrides: settings of the serving library by its own names, the variant's over those of ``serving``.
    """

    tensor_parallel_degree: int
    devices: int
    max_num_seqs: int
    async_scheduling: bool
    overrides: dict[str, Any]


class Variant(Section):
    """One service. Unset fields fall back to ``serving``; a variant without a draft is a baseline."""

    name: str = Field(pattern=NAME, max_length=32, description="name in reports, metrics and records")
    service: str = Field(
        pattern=NAME, max_length=40, description="Kubernetes name of its Deployment and Service"
    )
    mode: str | None = Field(
        default=None,
        description=f"speculation mode, one that the stack has: {', '.join(MODES)}; none decodes plainly",
    )
    draft: str | None = Field(default=None, description="draft model")
    window: int | None = Field(
        default=None, ge=1, le=32, description="num_speculative_tokens: tokens the draft proposes per step"
    )
    tensor_parallel_degree: int | None = Field(
        default=None, ge=1, description="instead of serving.tensor_parallel_degree"
    )
    devices: int | None = Field(default=None, ge=1, description="instead of serving.devices")
    max_num_seqs: int | None = Field(default=None, ge=1, description="instead of serving.max_num_seqs")
    async_scheduling: bool | None = Field(default=None, description="instead of serving.async_scheduling")
    overrides: dict[str, Override] = Field(
        default_factory=dict,
        description="further settings of the serving library for this service, over serving.overrides",
    )

    @property
    def speculative(self) -> bool:
        """Whether this variant has a draft."""
        return self.mode is not None


class Benchmark(Section):
    """What is asked of the services."""

    lanes: tuple[Lane, ...] = Field(default=("exact",), min_length=1, description="which clients measure")
    prompts: str = Field(
        default="classes",
        description=(
            "a shipped set (`classes`, `published`, `rehearsal`, `long`), `synthetic:` with its fields, or a"
            " file, by its path from the folder of the experiment file (docs/prompts.md)"
        ),
    )
    output_tokens: int = Field(
        default=600, ge=2, description="tokens every request generates, end-of-sequence ignored"
    )
    concurrency: int = Field(default=4, ge=1, description="requests in flight")
    repeats: int = Field(default=2, ge=1, description="times each prompt is sent to each variant")
    temperature: float = Field(
        default=0.0, ge=0.0, le=2.0, description="0 decodes greedily; parity can be judged only then"
    )
    thinking: bool = Field(default=False, description="Qwen3 thinking mode, set in every request")
    api: Literal["chat", "completions"] = Field(
        default="chat", description="route: /v1/chat/completions or /v1/completions"
    )
    schedule: Literal["alternate", "concurrent", "sequential"] = Field(
        default="alternate",
        description=(
            "variants take turns in blocks, or all are loaded at once as in the published experiment, or one"
            " is served after the other on the nodes of one, with the baseline before and after each other"
            " (docs/verdict.md)"
        ),
    )
    arrival: Literal["closed", "poisson", "constant"] = Field(
        default="closed",
        description="keep `concurrency` requests in flight, or send at `rate` whatever comes back",
    )
    rate: float | None = Field(
        default=None, gt=0, description="requests per second and variant, for poisson and constant arrival"
    )
    loads: tuple[float, ...] = Field(
        default=(),
        description=(
            "several loads, ascending, instead of `concurrency` (closed arrival) or `rate`: the report then"
            " says up to which speculation pays"
        ),
    )
    point_seconds: float = Field(
        default=3600.0,
        gt=0,
        description="longest time in seconds that a variant gets requests at one of the `loads`",
    )
    clients: int = Field(
        default=1,
        ge=1,
        le=100,
        description=(
            "pods that share the requests, each on a node of its own: for loads above what the client on one"
            " machine holds, some hundred streams per core"
        ),
    )
    warmup: int | None = Field(
        default=None,
        ge=0,
        description="unmeasured requests per variant before the others; else `concurrency`",
    )
    self_check: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description=(
            "share of the blocks in which the baseline is measured a second time, against itself, to show the"
            f" noise floor; else {SELF_CHECK_SHARE:g} where `schedule` is `alternate`"
        ),
    )
    seed: int = Field(default=1, ge=0, description="fixes order, arrivals and, above temperature 0, sampling")
    stall_seconds: float = Field(
        default=120.0, gt=0, description="longest wait for a byte from the server, the first token included"
    )
    request_seconds: float = Field(default=1800.0, gt=0, description="deadline of a whole request")

    @property
    def self_check_share(self) -> float:
        """Share of the blocks in which the baseline is measured against itself."""
        if self.self_check is not None:
            return self.self_check
        return SELF_CHECK_SHARE if self.schedule == "alternate" else 0.0


class ModelFacts(Section):
    """A model of your own, or another revision of a known one. A known model needs the revision only."""

    revision: str = Field(
        default="main",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="git revision on Hugging Face; a branch is looked up once, when the model is staged",
    )
    architecture: str | None = Field(
        default=None, description="class name in the model's config.json; must equal the target's for a draft"
    )
    tokenizer: str | None = Field(
        default=None, description="name of the tokenizer; draft and target must have the same one"
    )
    layers: int | None = Field(default=None, ge=1, description="decoder layers")
    hidden_size: int | None = Field(default=None, ge=1, description="width of the residual stream")
    attention_heads: int | None = Field(default=None, ge=1, description="query heads")
    kv_heads: int | None = Field(default=None, ge=1, description="key/value heads")
    head_size: int | None = Field(default=None, ge=1, description="width of one head")
    intermediate_size: int | None = Field(default=None, ge=1, description="width of the feed-forward layer")
    vocabulary: int | None = Field(default=None, ge=1, description="rows of the embedding")
    max_positions: int | None = Field(default=None, ge=1, description="longest context, tokens")
    target_head: bool = Field(
        default=False,
        description=(
            "the target's output head has been copied into this EAGLE draft, which NxD Inference needs"
        ),
    )
    tied_embeddings: bool | None = Field(
        default=None, description="input and output embedding are one matrix"
    )
    parameters: int | None = Field(default=None, ge=1, description="weights stored, count")


class Store(Section):
    """The bucket that holds models, artifacts and runs."""

    on_destroy: Literal["retain", "empty"] = Field(
        default="retain", description="keep the bucket when the stack goes, or empty and delete it"
    )
    runs_kept_days: int = Field(default=365, ge=1, description="days after which run results expire")


class Guards(Section):
    """Limits on what a forgotten experiment can cost."""

    notify: str | None = Field(
        default=None,
        description=(
            "who hears of alarms, of the budget and of nodes that a guard stopped: an e-mail address, which"
            " has to confirm once, or the ARN of an existing SNS topic"
        ),
    )
    monthly_budget_usd: float | None = Field(
        default=None, gt=0, description="budget whose notifications go to `notify`"
    )
    budget_covers: Literal["region", "experiment"] = Field(
        default="region",
        description=(
            "costs that count: all of the region, or those with the tag `experiment`, seen only once it is a"
            " cost allocation tag"
        ),
    )
    scale_down_at: str | None = Field(
        default=None,
        pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$",
        description="UTC time at which the accelerator nodes are set to 0",
    )
    scale_down_every_hours: int = Field(
        default=12,
        ge=0,
        le=168,
        description=(
            "set the accelerator nodes to 0 every so many hours, counted from the deployment and anew from"
            " every `specdec nodes up`; 0 never does"
        ),
    )


class Cost(Section):
    """Prices that turn times into money."""

    node_usd_per_hour: float | None = Field(
        default=None, gt=0, description="price of one accelerator node; else the catalogue's"
    )


class Objective(Section):
    """Limits that users must be kept within. With a limit, the report says how much load each variant
    carries.
    """

    ttft_ms: float | None = Field(
        default=None, gt=0, description="limit for the time to the first token, in milliseconds"
    )
    tpot_ms: float | None = Field(
        default=None, gt=0, description="limit for the time per output token, in milliseconds"
    )
    e2e_ms: float | None = Field(
        default=None, gt=0, description="limit for the time to the last token, in milliseconds"
    )
    share: float = Field(
        default=0.95, gt=0.0, le=1.0, description="share of the requests that must stay within every limit"
    )
