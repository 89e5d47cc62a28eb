"""One region of the experiment. Everything is composed and ordered here, and defined elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk

import charts
from charts.names import NAMESPACE as KUBERNETES_NAMESPACE
from specdec import metrics
from specdec.benchmark import llmperf, prompts
from specdec.catalog import system_node
from specdec.catalog.chips import INSTANCES
from specdec.publish import series
from trainium_constructs.access import PodAccess
from trainium_constructs.addons import NodeAddons, PodAddons
from trainium_constructs.alarms import Alarms
from trainium_constructs.cluster import Cluster
from trainium_constructs.dashboards import Dashboards
from trainium_constructs.efa import Efa
from trainium_constructs.guards import Budget, ScaleDown
from trainium_constructs.log_groups import own_function_logs, retention_days
from trainium_constructs.model_store import ModelStore
from trainium_constructs.network import Network
from trainium_constructs.neuron_devices import NeuronDevices
from trainium_constructs.node_groups import SystemNodes, node_role
from trainium_constructs.observability import ContainerLogs, Observability
from trainium_constructs.outputs import Outputs
from trainium_constructs.trainium_nodes import TrainiumNodes, node_group_name
from trainium_constructs.workloads import Workloads

if TYPE_CHECKING:
    from constructs import Construct

    from specdec.experiment.fields import Experiment


class ExperimentStack(cdk.Stack):
    """The whole experiment in one region, as one flat CloudFormation stack."""

    def __init__(self, scope: Construct, construct_id: str, *, experiment: Experiment, region: str) -> None:
        self._zones = experiment.zones(region)
        name = experiment.stack_name(region)
        tags = experiment.resource_tags()
        # Into launch templates goes only what never changes: a new template version replaces every node, and
        # CloudFormation refuses it together with a new tag of the node group.
        fixed_tags = {"experiment": experiment.name}
        super().__init__(
            scope,
            construct_id,
            stack_name=name,
            description=f"Speculative decoding experiment {experiment.name} in {region}",
            env=cdk.Environment(region=region),
            tags=tags,
        )
        place, capacity, guards = experiment.placement[region], experiment.capacity, experiment.guards
        retention = retention_days(experiment.cluster.log_retention_days)

        network = Network(self, "Network", cidr=experiment.cluster.vpc_cidr, log_retention=retention)
        store = ModelStore(
            self,
            "ModelStore",
            kept_bucket=place.bucket,
            on_destroy=experiment.store.on_destroy,
            runs_kept_days=experiment.store.runs_kept_days,
        )
        cluster = Cluster(
            self,
            "Cluster",
            name=name,
            vpc=network.vpc,
            kubernetes_version=experiment.cluster.kubernetes_version,
            public_access_cidrs=experiment.cluster.public_access_cidrs,
            admin_principal_arns=experiment.cluster.admin_principal_arns,
            log_retention=retention,
        )
        eks_cluster = cluster.cluster
        versions = experiment.cluster.addon_versions
        node_addons = NodeAddons(self, "NodeAddons", cluster_name=eks_cluster.cluster_name, versions=versions)
        container_logs = ContainerLogs(self, "ContainerLogs", cluster_name=name, retention=retention)
        role = node_role(self, "NodeRole")
        system_nodes = SystemNodes(
            self,
            "SystemNodes",
            cluster_name=eks_cluster.cluster_name,
            role=role,
            subnet_ids=network.private_subnets(),
            instance_type=capacity.system_instance_type,
            tags=fixed_tags,
        )
        efa = None
        if capacity.efa:
            efa = Efa(
                self,
                "Efa",
                vpc=network.vpc,
                cluster_security_group_id=eks_cluster.cluster_security_group_id,
                cards=INSTANCES[capacity.instance_type].efa_cards,
                placement_group=capacity.purchase == "on-demand",
            )
        trainium_nodes = TrainiumNodes(
            self,
            "TrainiumNodes",
            cluster_name=eks_cluster.cluster_name,
            role=role,
            subnet_id=network.private_subnets(zone=place.zone)[0],
            zone=place.zone,
            instance_type=capacity.instance_type,
            purchase=capacity.purchase,
            reservation_id=place.reservation_id,
            desired_nodes=capacity.desired_nodes,
            max_nodes=capacity.max_nodes,
            root_volume_gib=capacity.root_volume_gib,
            efa=efa,
            tags=fixed_tags,
        )
        pod_addons = PodAddons(self, "PodAddons", cluster_name=eks_cluster.cluster_name, versions=versions)
        observability = Observability(
            self, "Observability", cluster_name=eks_cluster.cluster_name, versions=versions
        )
        devices = NeuronDevices(
            self, "NeuronDevices", cluster=eks_cluster, allocation=experiment.serving.allocation
        )
        access = PodAccess(
            self,
            "PodAccess",
            cluster_name=eks_cluster.cluster_name,
            bucket=store.bucket,
            namespace=KUBERNETES_NAMESPACE,
            metric_namespaces=series.NAMESPACES,
            token_secret=experiment.serving.hf_token_secret,
        )

        system_nodes.node.add_dependency(node_addons, container_logs)
        trainium_nodes.node.add_dependency(node_addons, container_logs)
        pod_addons.node.add_dependency(system_nodes)
        observability.node.add_dependency(system_nodes, container_logs)
        devices.node.add_dependency(system_nodes, trainium_nodes)

        if guards.scale_down_at is not None or guards.scale_down_every_hours is not None:
            scale_down = ScaleDown(
                self,
                "ScaleDown",
                cluster_name=name,
                node_group=node_group_name(
                    zone=place.zone, purchase=capacity.purchase, reservation_id=place.reservation_id
                ),
                max_nodes=capacity.max_nodes,
                at=guards.scale_down_at,
                every_hours=guards.scale_down_every_hours,
            )
            trainium_nodes.node.add_dependency(scale_down)
        if guards.monthly_budget_usd is not None and guards.budget_email is not None:
            Budget(
                self,
                "Budget",
                name=name,
                monthly_usd=guards.monthly_budget_usd,
                email=guards.budget_email,
                region=region,
                covers=guards.budget_covers,
                experiment=experiment.name,
            )

        bucket = store.bucket.bucket_name
        workloads = Workloads(
            self,
            "Workloads",
            cluster=eks_cluster,
            manifests={
                key: chart.to_json()
                for key, chart in charts.build(experiment, region=region, bucket=bucket).items()
            },
        )
        workloads.node.add_dependency(devices, pod_addons, access, store)

        services = {variant.name: variant.service for variant in experiment.variants}
        alarms = Alarms(
            self,
            "Alarms",
            experiment=experiment.name,
            cluster_name=name,
            services=services,
            namespace=KUBERNETES_NAMESPACE,
            system_nodes=system_node.NODES,
        )
        test_cases = list(
            dict.fromkeys(prompt.test_case for prompt in prompts.load(experiment.benchmark.prompts))
        )
        Dashboards(
            self,
            "Dashboards",
            experiment=experiment.name,
            name=name,
            cluster_name=name,
            services=services,
            namespace=KUBERNETES_NAMESPACE,
            metrics=metrics.ALL,
            test_cases=test_cases,
            llmperf_test_cases=(
                list(llmperf.PUBLISHED_CASES) if "llmperf" in experiment.benchmark.lanes else ()
            ),
            system_nodes=system_node.NODES,
            devices_per_node=INSTANCES[capacity.instance_type].devices,
            devices_per_service=experiment.serving.devices,
            node_usd_per_hour=experiment.cost.node_usd_per_hour,
            alarms=alarms.all,
        )
        Outputs(
            self,
            "Outputs",
            values={
                "Kubeconfig": (
                    f"aws eks update-kubeconfig --name {name} --region {region}",
                    "Lets kubectl reach the cluster",
                ),
                "Dashboard": (Dashboards.url(name), "Speculative against baseline"),
                "MachineDashboard": (
                    Dashboards.url(f"{name}-machine"),
                    "Neuron devices, services, nodes and spend",
                ),
                "Bucket": (store.bucket.bucket_name, "Models, compiled artifacts and runs"),
                "Logs": (
                    f"aws logs tail {container_logs.application.log_group_name} --region {region} --follow",
                    "Output of the services and the benchmark",
                ),
                "Runs": (
                    f"uv run specdec runs --region {region}",
                    "Runs in the bucket; specdec report makes the verdict of one",
                ),
            },
        )

        for key, value in tags.items():
            cdk.Tags.of(self).add(key, value)
        own_function_logs(self, days=experiment.cluster.log_retention_days)

    @property
    def availability_zones(self) -> list[str]:
        """The two zones of the experiment. Looking them up, as the CDK would, needs an account."""
        return list(self._zones)
