"""The experiment: one typed, frozen configuration that every part of the product is a function of.

``load`` reads a TOML file and reports every mistake in it at once. Nothing here reads the network, the clock,
the environment or git.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from pydantic import Field

from specdec.catalog.images import STACKS
from specdec.catalog.instances import INSTANCES
from specdec.catalog.prices import NodePrice, price_for
from specdec.catalog.regions import zones_of
from specdec.experiment.models import with_own
from specdec.experiment.network_section import Network
from specdec.experiment.phases import nodes_for
from specdec.experiment.sections import (
    NAME,
    Account,
    Benchmark,
    Capacity,
    Cluster,
    Cost,
    Guards,
    Lane,
    ModelFacts,
    Objective,
    Override,
    Placement,
    Section,
    Serving,
    Store,
    Variant,
    VariantSettings,
)

if TYPE_CHECKING:
    from specdec.catalog.chips import Instance
    from specdec.catalog.models import Model
    from specdec.catalog.stacks import ServingStack

__all__ = [
    "Account",
    "Benchmark",
    "Capacity",
    "Cluster",
    "Cost",
    "Experiment",
    "Guards",
    "Lane",
    "ModelFacts",
    "Network",
    "Objective",
    "Override",
    "Placement",
    "Section",
    "Serving",
    "Store",
    "Variant",
    "VariantSettings",
]


class Experiment(Section):
    """The whole experiment."""

    name: str = Field(
        pattern=NAME,
        max_length=24,
        description="prefix of every name in the account; a stack is `<name>-<region>`",
    )
    owner: str = Field(default="unknown", min_length=1, description="value of the owner tag")
    regions: tuple[str, ...] = Field(min_length=1, description="one stack each")
    tags: dict[str, str] = Field(
        default_factory=dict,
        description=(
            "further tags for everything in the account but instances and volumes, which carry `experiment`,"
            " `Name` and `account.tags`"
        ),
    )
    account: Account = Account()
    cluster: Cluster = Cluster()
    # Left out of what is stored where it says nothing, so that runs and Jobs keep their hashes.
    network: Network = Field(default=Network(), exclude_if=lambda network: network == Network())
    capacity: Capacity = Capacity()
    placement: dict[str, Placement] = Field(default_factory=dict, description="per region")
    serving: Serving = Serving()
    variants: tuple[Variant, ...] = Field(
        min_length=1, description="the services to compare; the first without a draft is the baseline"
    )
    models: dict[str, ModelFacts] = Field(
        default_factory=dict, description="models the catalogue does not know, by Hugging Face id"
    )
    benchmark: Benchmark = Benchmark()
    objective: Objective = Objective()
    store: Store = Store()
    guards: Guards = Guards()
    cost: Cost = Cost()

    @property
    def baseline(self) -> Variant:
        """The variant that the others are measured against: the first one without a draft."""
        return next(variant for variant in self.variants if not variant.speculative)

    def model(self, model: str) -> Model:
        """Facts of a model of this experiment: the catalogue's, or the experiment's own.

        Raises:
            KeyError: neither knows it; a checked experiment names no such model.
        """
        return with_own(self.models)[model]

    def settings(self, variant: Variant) -> VariantSettings:
        """The settings of one variant: its own value where it has one, else the value of ``serving``."""
        return self.serving.settings(variant)

    def models_of(self, variant: Variant) -> tuple[str, ...]:
        """Hugging Face ids of the models that one variant loads: the target, and its draft if it has one."""
        return self.serving.loaded_models([variant])

    @property
    def loaded_models(self) -> tuple[str, ...]:
        """Hugging Face ids of all models that the services load, the target first, each once."""
        return self.serving.loaded_models(self.variants)

    @property
    def stack(self) -> ServingStack:
        """The serving stack, from the catalogue.

        Raises:
            KeyError: the catalogue has none of this name; a checked experiment names no such stack.
        """
        return STACKS[self.serving.stack]

    @property
    def instance(self) -> Instance:
        """The accelerator instance, from the catalogue.

        Raises:
            KeyError: the catalogue has none of this type; a checked experiment names no such type.
        """
        return INSTANCES[self.capacity.instance_type]

    def price(self, region: str) -> NodePrice | None:
        """The price of an accelerator node: the experiment's own, else what the catalogue has seen, the
        region's own first.
        """
        own = self.cost.node_usd_per_hour
        return price_for(self.capacity.instance_type, self.capacity.purchase, region, own=own)

    @property
    def nodes_needed(self) -> int:
        """Number of accelerator nodes for what is served at once: all variants, or the largest one if they
        are served one after the other. Claims are powers of two and leave no gaps.
        """
        return nodes_for(self.serving, self.variants, self.benchmark, self.instance)

    @property
    def sequential(self) -> bool:
        """Whether one variant is served after the other."""
        return self.benchmark.schedule == "sequential"

    def stack_name(self, region: str) -> str:
        """CloudFormation stack and dashboard name in one region, and of its cluster unless one exists."""
        return f"{self.name}-{region}"

    def cluster_name(self, region: str) -> str:
        """The Kubernetes cluster in one region: one that exists, else the stack's own."""
        return self.placement[region].cluster_name or self.stack_name(region)

    def resource_tags(self) -> dict[str, str]:
        """Tags of every resource: its owner, and what a cost report needs to tell experiments apart."""
        return {
            "experiment": self.name,
            "owner": self.owner,
            "variants": " ".join(variant.name for variant in self.variants),
            **self.account.tags,
            **self.tags,
        }

    def fixed_tags(self) -> dict[str, str]:
        """Tags of launch templates, and so of instances and volumes, which never change on a live stack."""
        return {"experiment": self.name, **self.account.tags}

    def zones(self, region: str) -> tuple[str, ...]:
        """Zones of the network in one region, two at least. The control plane is in the first two."""
        place = self.placement[region]
        return tuple(place.subnets) or place.zones or zones_of(region)

    def measured(self, region: str) -> Experiment:
        """The part of the experiment that affects what is measured in one region, and what that costs.

        A run keeps this: two runs have one configuration hash although budget, network or tags differ.
        """
        kept = {field: getattr(self.capacity, field) for field in _MEASURED_CAPACITY}
        declared = Experiment.model_fields
        return self.model_copy(
            update={
                **{field: declared[field].get_default(call_default_factory=True) for field in _OF_THE_STACK},
                "regions": (region,),
                "capacity": Capacity(**kept),
                "serving": self.serving.model_copy(update={"hf_token_secret": None}),
            }
        )

    def resolved(self) -> dict[str, Any]:
        """All fields, defaults filled in, as plain data."""
        return self.model_dump(mode="json")

    def configuration_hash(self) -> str:
        """12 hex digits over ``resolved()``: same hash, same experiment."""
        canonical = json.dumps(self.resolved(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


_MEASURED_CAPACITY = ("instance_type", "purchase", "efa", "system_instance_type")
"""Fields of ``capacity`` that decide what runs where, and at which price."""
_OF_THE_STACK = ("owner", "tags", "account", "cluster", "placement", "store", "guards", "network")
"""What only the stack around the services is made of."""
