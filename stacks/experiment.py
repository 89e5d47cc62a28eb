"""One region of the experiment. Everything is composed and ordered here, and defined elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk

import charts
from charts.names import NAMESPACE
from specdec import metrics
from specdec.catalog import system_node
from specdec.catalog.addons import addon_versions
from specdec.catalog.instances import INSTANCES
from specdec.catalog.sources import NEURON_CHART
from specdec.experiment.endpoints import endpoints_of
from specdec.llmperf import results
from specdec.prompts import sets as prompts
from specdec.publish import series
from specdec.serving.limits import start_seconds
from trainium_constructs.access import PodAccess
from trainium_constructs.account_rules import follow_account_rules
from trainium_constructs.addons import NodeAddons, PodAddons
from trainium_constructs.alarms import Alarms
from trainium_constructs.cluster import Cluster, ExistingCluster
from trainium_constructs.dashboards import Dashboards
from trainium_constructs.efa import Efa
from trainium_constructs.guards import Budget, ScaleDown
from trainium_constructs.log_groups import own_function_logs, retention_days
from trainium_constructs.model_store import ModelStore
from trainium_constructs.network import ExistingNetwork, IsolatedNetwork, Network
from trainium_constructs.neuron_devices import NeuronDevices
from trainium_constructs.node_groups import SystemNodes, node_role
from trainium_constructs.notices import Notices
from trainium_constructs.observability import ContainerLogs, Observability
from trainium_constructs.outputs import Outputs
from trainium_constructs.trainium_nodes import TrainiumNodes, node_group_name
from trainium_constructs.workloads import Server, Workloads

if TYPE_CHECKING:
    from pathlib import Path

    from aws_cdk import aws_iam as iam
    from constructs import Construct

    from specdec.experiment.fields import Account, Experiment
    from trainium_constructs.cluster import AnyCluster
    from trainium_constructs.network import AnyNetwork


class ExperimentStack(cdk.Stack):
    """The whole experiment in one region, as one flat CloudFormation stack."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        experiment: Experiment,
        region: str,
        base: Path | None = None,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=experiment.stack_name(region),
            description=f"Speculative decoding experiment {experiment.name} in {region}",
            env=cdk.Environment(account=experiment.account.id, region=region),
            tags=experiment.resource_tags(),
            termination_protection=experiment.account.termination_protection or None,
            synthesizer=_synthesizer(experiment.account),
        )
        self._experiment, self._region, self._base = experiment, region, base
        self._place = experiment.placement[region]

        network = self._network()
        store = self._store()
        if not isinstance(network, ExistingNetwork):
            network.reach_only(store.bucket)
        cluster = self._cluster(network)
        node_addons = NodeAddons(self, "NodeAddons", cluster=cluster)
        logs = self._container_logs(cluster)
        role = node_role(self, "NodeRole")
        system_nodes = self._system_nodes(cluster, network, role)
        trainium_nodes = self._trainium_nodes(cluster, network, role)
        pod_addons = PodAddons(self, "PodAddons", cluster=cluster)
        observability = Observability(self, "Observability", cluster=cluster)
        devices = self._devices(cluster)
        access = self._access(cluster, store)

        for nodes in (system_nodes, trainium_nodes):
            nodes.node.add_dependency(network, node_addons, logs)
        pod_addons.node.add_dependency(system_nodes)
        observability.node.add_dependency(system_nodes, logs)
        if devices is not None:
            devices.node.add_dependency(system_nodes, trainium_nodes)

        notify = experiment.guards.notify
        notices = Notices(self, "Notices", notify=notify) if notify else None
        self._guards(cluster, trainium_nodes, notices)
        workloads = self._workloads(cluster, store)
        workloads.node.add_dependency(devices or trainium_nodes, pod_addons, access, store)
        alarms = self._watching(cluster, system_nodes, trainium_nodes, workloads)
        if notices is not None:
            notices.follow(alarms.all)
        self._outputs(cluster, store, logs)

        for key, value in experiment.resource_tags().items():
            cdk.Tags.of(self).add(key, value)
        own_function_logs(self, days=experiment.cluster.log_retention_days)
        follow_account_rules(
            self,
            permissions_boundary=experiment.account.permissions_boundary,
            role_path=experiment.account.role_path,
            role_prefix=experiment.account.role_prefix,
            log_key_arn=self._place.kms_key_arn,
        )

    def _network(self) -> AnyNetwork:
        fields, place = self._experiment.cluster, self._place
        if place.vpc_id is not None:
            return ExistingNetwork(self, "Network", vpc_id=place.vpc_id, subnets=place.subnets)
        if not self._experiment.network.internet:
            return IsolatedNetwork(
                self,
                "Network",
                cidr=fields.vpc_cidr,
                zones=self._experiment.zones(self._region),
                log_retention=retention_days(fields.log_retention_days),
                endpoints=endpoints_of(self._experiment),
            )
        return Network(
            self,
            "Network",
            cidr=fields.vpc_cidr,
            zones=self._experiment.zones(self._region),
            log_retention=retention_days(fields.log_retention_days),
        )

    def _store(self) -> ModelStore:
        return ModelStore(
            self,
            "ModelStore",
            kept_bucket=self._place.bucket,
            on_destroy=self._experiment.store.on_destroy,
            runs_kept_days=self._experiment.store.runs_kept_days,
            key_arn=self._place.kms_key_arn,
        )

    def _cluster(self, network: AnyNetwork) -> AnyCluster:
        fields, place = self._experiment.cluster, self._place
        if place.cluster_name is not None and place.cluster_security_group_id is not None:
            return ExistingCluster(
                self,
                "Cluster",
                name=place.cluster_name,
                vpc=network.vpc,
                security_group_id=place.cluster_security_group_id,
                kubernetes_version=fields.kubernetes_version,
                addon_versions=addon_versions(fields.kubernetes_version, fields.addon_versions),
                ami_release=fields.ami_release,
                existing_addons=place.cluster_addons,
                kubectl_role_arn=place.kubectl_role_arn,
            )
        return Cluster(
            self,
            "Cluster",
            name=self._experiment.stack_name(self._region),
            vpc=network.vpc,
            kubernetes_version=fields.kubernetes_version,
            addon_versions=addon_versions(fields.kubernetes_version, fields.addon_versions),
            ami_release=fields.ami_release,
            public_access_cidrs=fields.public_access_cidrs,
            admin_principal_arns=fields.admin_principal_arns,
            viewer_principal_arns=fields.viewer_principal_arns,
            log_retention=retention_days(fields.log_retention_days),
            key_arn=self._place.kms_key_arn,
        )

    def _devices(self, cluster: AnyCluster) -> NeuronDevices | None:
        if self._place.cluster_has_neuron:
            return None
        network = self._experiment.network
        return NeuronDevices(
            self,
            "NeuronDevices",
            cluster=cluster.cluster,
            allocation=self._experiment.serving.allocation,
            chart=network.chart(NEURON_CHART, self._region),
            image=lambda name: network.image(name, self._region),
        )

    def _container_logs(self, cluster: AnyCluster) -> ContainerLogs:
        retention = retention_days(self._experiment.cluster.log_retention_days)
        return ContainerLogs(self, "ContainerLogs", cluster=cluster, retention=retention)

    def _system_nodes(self, cluster: AnyCluster, network: AnyNetwork, role: iam.Role) -> SystemNodes:
        return SystemNodes(
            self,
            "SystemNodes",
            cluster=cluster,
            role=role,
            subnet_ids=network.private_subnets(),
            instance_type=self._experiment.capacity.system_instance_type,
            count=system_node.nodes(self._experiment.benchmark.clients),
            tags=self._fixed_tags,
        )

    def _trainium_nodes(self, cluster: AnyCluster, network: AnyNetwork, role: iam.Role) -> TrainiumNodes:
        capacity = self._experiment.capacity
        efa = None
        if capacity.efa:
            efa = Efa(
                self,
                "Efa",
                vpc=network.vpc,
                cluster_security_group_id=cluster.cluster.cluster_security_group_id,
                cards=INSTANCES[capacity.instance_type].efa_cards,
                placement_group=capacity.purchase == "on-demand",
            )
        return TrainiumNodes(
            self,
            "TrainiumNodes",
            cluster=cluster,
            role=role,
            subnet_id=network.node_subnet(self._place.zone),
            zone=self._place.zone,
            instance=INSTANCES[capacity.instance_type],
            purchase=capacity.purchase,
            reservation_id=self._place.reservation_id,
            desired_nodes=capacity.desired_nodes,
            max_nodes=capacity.max_nodes,
            root_volume_gib=capacity.root_volume_gib,
            efa=efa,
            tags=self._fixed_tags,
        )

    @property
    def _fixed_tags(self) -> dict[str, str]:
        """Tags that never change, for launch templates: a new version replaces every node, and CloudFormation
        refuses it together with a new tag of the node group.
        """
        return self._experiment.fixed_tags()

    def _access(self, cluster: AnyCluster, store: ModelStore) -> PodAccess:
        return PodAccess(
            self,
            "PodAccess",
            cluster=cluster,
            bucket=store.bucket,
            namespace=NAMESPACE,
            metric_namespaces=series.NAMESPACES,
            token_secret=self._experiment.serving.hf_token_secret,
            key_arn=self._place.kms_key_arn,
        )

    def _guards(self, cluster: AnyCluster, nodes: TrainiumNodes, notices: Notices | None) -> None:
        guards, capacity = self._experiment.guards, self._experiment.capacity
        if guards.scale_down_at is not None or guards.scale_down_every_hours:
            scale_down = ScaleDown(
                self,
                "ScaleDown",
                cluster=cluster,
                # Of every zone, so that another zone changes nothing here; a call for an absent group does
                # nothing.
                node_groups={
                    zone[-1].upper(): node_group_name(
                        zone=zone, purchase=capacity.purchase, reservation_id=self._place.reservation_id
                    )
                    for zone in self._experiment.zones(self._region)
                },
                max_nodes=capacity.max_nodes,
                at=guards.scale_down_at,
                every_hours=guards.scale_down_every_hours,
                topic=notices.topic if notices else None,
            )
            nodes.node.add_dependency(scale_down)
        if guards.monthly_budget_usd is not None and notices is not None:
            Budget(
                self,
                "Budget",
                name=self._experiment.stack_name(self._region),
                monthly_usd=guards.monthly_budget_usd,
                topic=notices.topic,
                region=self._region,
                covers=guards.budget_covers,
                experiment=self._experiment.name,
            )

    def _workloads(self, cluster: AnyCluster, store: ModelStore) -> Workloads:
        experiment = self._experiment
        built = charts.build(
            experiment, region=self._region, bucket=store.bucket.bucket_name, base=self._base
        )
        return Workloads(
            self,
            "Workloads",
            cluster=cluster.cluster,
            manifests={name: chart.to_json() for name, chart in built.items()},
            namespace=NAMESPACE,
            # A claim that is deleted while pods use it cannot be brought back by a rollback.
            lasting=("model-storage",),
            servers=[
                Server(variant.name, variant.service, experiment.settings(variant).devices)
                for variant in experiment.variants
            ],
        )

    def _watching(
        self, cluster: AnyCluster, system_nodes: SystemNodes, nodes: TrainiumNodes, workloads: Workloads
    ) -> Alarms:
        experiment = self._experiment
        alarms = Alarms(
            self,
            "Alarms",
            experiment=experiment.name,
            cluster=cluster,
            system_nodes=system_nodes,
            workloads=workloads,
            unready_minutes=-(-start_seconds(experiment) // 60),
            in_turn=experiment.sequential,
        )
        loaded = prompts.load(experiment.benchmark.prompts, base=self._base)
        Dashboards(
            self,
            "Dashboards",
            experiment=experiment.name,
            name=experiment.stack_name(self._region),
            cluster=cluster,
            system_nodes=system_nodes,
            accelerators=nodes,
            workloads=workloads,
            alarms=alarms,
            metrics=metrics.ALL,
            test_cases={prompt.test_case: prompt.prompt_class for prompt in loaded},
            llmperf_test_cases=(
                list(results.PUBLISHED_CASES) if "llmperf" in experiment.benchmark.lanes else ()
            ),
            loads=experiment.benchmark.loads if len(experiment.benchmark.loads) > 1 else (),
            node_usd_per_hour=experiment.cost.node_usd_per_hour,
        )
        return alarms

    def _outputs(self, cluster: AnyCluster, store: ModelStore, logs: ContainerLogs) -> None:
        name, region = self._experiment.stack_name(self._region), self._region
        Outputs(
            self,
            "Outputs",
            values={
                **cluster.reach(region),
                "Dashboard": (Dashboards.url(name), "Speculative against baseline"),
                "MachineDashboard": (
                    Dashboards.url(f"{name}-machine"),
                    "Neuron devices, services, nodes and spend",
                ),
                "Bucket": (store.bucket.bucket_name, "Models, compiled artifacts and runs"),
                "Logs": (
                    f"aws logs tail {logs.application.log_group_name} --region {region} --follow",
                    "Output of the services and the benchmark",
                ),
                "Runs": (
                    f"uv run specdec runs --region {region}",
                    "Runs in the bucket; specdec report makes the verdict of one",
                ),
            },
        )


def _synthesizer(account: Account) -> cdk.DefaultStackSynthesizer:
    """How the CDK reaches the account: by the roles of its bootstrap, or by those that the account names."""
    return cdk.DefaultStackSynthesizer(
        qualifier=account.bootstrap_qualifier,
        deploy_role_arn=account.deploy_role_arn,
        cloud_formation_execution_role=account.execution_role_arn,
    )
