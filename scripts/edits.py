"""Wrong edits of charts, constructs and the stack: slips that a person makes, each of which breaks a
deployment.
"""

from __future__ import annotations

from dataclasses import dataclass

SERVICE, OBJECTS = "charts/vllm_service.py", "charts/objects.py"
CLAIMS, STORAGE = "charts/device_claims.py", "charts/model_storage.py"
STAGING, NAMESPACE = "charts/model_staging.py", "charts/namespace.py"
_CONSTRUCTS = "constructs/trainium_constructs"
TRAINIUM, GROUPS = f"{_CONSTRUCTS}/trainium_nodes.py", f"{_CONSTRUCTS}/node_groups.py"
ACCESS, ROLES = f"{_CONSTRUCTS}/access.py", f"{_CONSTRUCTS}/roles.py"
ADDONS, DEVICES = f"{_CONSTRUCTS}/addons.py", f"{_CONSTRUCTS}/neuron_devices.py"
INSIGHTS, NETWORK = f"{_CONSTRUCTS}/observability.py", f"{_CONSTRUCTS}/network.py"
CLUSTER = f"{_CONSTRUCTS}/cluster.py"
GUARDS, ALARMS = f"{_CONSTRUCTS}/guards.py", f"{_CONSTRUCTS}/alarms.py"
STACK, CATALOGUE = "stacks/experiment.py", "specdec/catalog/addons.py"


@dataclass(frozen=True, slots=True)
class Edit:
    """One wrong edit.

    Attributes:
        what: what it does, in a few words.
        file: file that it changes.
        old: text that stands once in the file.
        new: what it becomes.
        names: what the test that finds it has to say, at least.
    """

    what: str
    file: str
    old: str
    new: str
    names: str

    def applied(self, text: str) -> str:
        """The file after the edit.

        Raises:
            ValueError: the file has changed, and the edit no longer fits in exactly one place.
        """
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.what}: {self.file} has {text.count(self.old)} places for it, expected 1:\n{self.old}"
            )
        return text.replace(self.old, self.new)


SEVENTEEN = (
    Edit(
        "toleration of another key",
        SERVICE,
        '{"key": "aws.amazon.com/neuron", "operator"',
        '{"key": "aws.amazon.com/neurons", "operator"',
        "Deployment/qwen-vllm: instance types of the node groups that it may run on",
    ),
    Edit(
        "Service selects other labels",
        SERVICE,
        "                selector=selector,\n                ports",
        '                selector=labels(variant.name, "server"),\n                ports',
        "Service/qwen-vllm: spec.selector",
    ),
    Edit(
        "Service listens on another port",
        SERVICE,
        'k8s.ServicePort(name="http", port=PORT,',
        'k8s.ServicePort(name="http", port=80,',
        "Service/qwen-vllm: ports",
    ),
    Edit(
        "server under the benchmark's service account",
        SERVICE,
        '"serviceAccountName": SERVER,',
        '"serviceAccountName": BENCHMARK,',
        "Deployment/qwen-vllm: serviceAccountName",
    ),
    Edit(
        "node selector of the system nodes",
        SERVICE,
        '"nodeSelector": {INSTANCE_TYPE_LABEL: experiment.capacity.instance_type},',
        '"nodeSelector": {INSTANCE_TYPE_LABEL: experiment.capacity.system_instance_type},',
        "Deployment/qwen-vllm: instance types of the node groups",
    ),
    Edit(
        "mount prefix without its slash",
        STORAGE,
        'f"prefix {MODELS}",',
        'f"prefix {MODELS}".rstrip("/"),',
        "mountOptions",
    ),
    Edit("mount without allow-other", STORAGE, '        "allow-other",\n', "", "mountOptions"),
    Edit(
        "target port that no container names",
        SERVICE,
        'k8s.IntOrString.from_string("http")',
        'k8s.IntOrString.from_string("web")',
        "Service/qwen-vllm: targetPort",
    ),
    Edit(
        "taint of another key on the node group",
        TRAINIUM,
        'TAINT = "aws.amazon.com/neuron"',
        'TAINT = "aws.amazon.com/neuroncore"',
        "Deployment/qwen-vllm: instance types of the node groups",
    ),
    Edit(
        "association for an account that there is not",
        ACCESS,
        "                service_account=account,\n                role_arn",
        '                service_account=f"{account}s",\n                role_arn',
        "PodIdentityAssociation: namespaces and service accounts",
    ),
    Edit(
        "logical core size of the claim fixed",
        CLAIMS,
        '"logicalNeuronCore": experiment.serving.logical_core_size,',
        '"logicalNeuronCore": 1,',
        "Deployment/qwen-vllm: logical core size",
    ),
    Edit(
        "a wider managed policy for nodes",
        GROUPS,
        '"AmazonEC2ContainerRegistryPullOnly"',
        '"AmazonEC2ContainerRegistryReadOnly"',
        "NodeRole",
    ),
    Edit(
        "pods may delete objects",
        ACCESS,
        'actions=["s3:PutObject", "s3:AbortMultipartUpload"],',
        'actions=["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],',
        "PodAccess",
    ),
    Edit(
        "workloads do not wait for the device driver",
        STACK,
        "workloads.node.add_dependency(devices or trainium_nodes, pod_addons, access, store)",
        "workloads.node.add_dependency(pod_addons, access, store)",
        "NeuronDevicesChart",
    ),
    Edit(
        "network add-on does not wait for credentials",
        ADDONS,
        "        cni.node.add_dependency(agent)\n",
        "        assert cni is not agent\n",
        "NodeAddonsVpcCni",
    ),
    Edit(
        "benchmark and stagers drawn to accelerator nodes",
        OBJECTS,
        'operator="NotIn"',
        'operator="In"',
        "instance types of the node groups",
    ),
    Edit("mount without its region", STORAGE, '        f"region {region}",\n', "", "mountOptions"),
)
"""Those that were tried when the gates were found wanting."""

OTHERS = (
    Edit(
        "models mounted elsewhere than the server reads",
        SERVICE,
        '{"name": "models", "mountPath": STORE.rstrip("/"), "readOnly": True}',
        '{"name": "models", "mountPath": "/models", "readOnly": True}',
        "Deployment/qwen-vllm: model on the command line",
    ),
    Edit(
        "devices claimed by the pod and used by no container",
        SERVICE,
        '**({"claims": claims["claims"]} if "claims" in claims else {}),',
        "",
        "Deployment/qwen-vllm: claims of server",
    ),
    Edit(
        "shared memory on a disk",
        SERVICE,
        '{"medium": "Memory", "sizeLimit": SHARED_MEMORY}',
        '{"sizeLimit": SHARED_MEMORY}',
        "Deployment/qwen-vllm: medium of /dev/shm",
    ),
    Edit(
        "rolling update of a server that holds its devices",
        SERVICE,
        '"strategy": {"type": "Recreate"},',
        '"strategy": {"type": "RollingUpdate"},',
        "Deployment/qwen-vllm: strategy",
    ),
    Edit(
        "probe of a path that vLLM does not serve",
        SERVICE,
        '"httpGet": {"path": "/health", "port": "http"},\n            "periodSeconds": 10,',
        '"httpGet": {"path": "/healthz", "port": "http"},\n            "periodSeconds": 10,',
        "Deployment/qwen-vllm: path of startupProbe",
    ),
    Edit(
        "script of a hook not shipped",
        SERVICE,
        '    "drain.sh",\n',
        "",
        "Deployment/qwen-vllm: server runs",
    ),
    Edit(
        "policy lets nobody's pods in",
        SERVICE,
        'k8s.LabelSelector(match_labels={"app.kubernetes.io/component": BENCHMARK})',
        'k8s.LabelSelector(match_labels={"app.kubernetes.io/component": "benchmarks"})',
        "NetworkPolicy/qwen-vllm: pods let in",
    ),
    Edit(
        "credentials asked at the address of ECS",
        NAMESPACE,
        'POD_IDENTITY = "169.254.170.23/32"',
        'POD_IDENTITY = "169.254.170.2/32"',
        "egress",
    ),
    Edit("no name resolution over UDP", NAMESPACE, "*ports(UDP, 53), ", "", "egress"),
    Edit(
        "namespace refuses the servers",
        NAMESPACE,
        'LEVELS = {"strict": "baseline",',
        'LEVELS = {"strict": "restricted",',
        "Namespace/specdec: level that is enforced",
    ),
    Edit(
        "stager's home on its read-only root",
        STAGING,
        '"HOME": "/scratch",',
        '"HOME": "/home/stager",',
        "HOME of stage",
    ),
    Edit(
        "constraint without the number of devices",
        CLAIMS,
        '"topology": f"{DRIVER}/topology{devices}_id",',
        '"topology": f"{DRIVER}/topology_id",',
        "matchAttribute",
    ),
    Edit(
        "pods reach the node's credentials",
        GROUPS,
        "http_put_response_hop_limit=1",
        "http_put_response_hop_limit=2",
        "MetadataOptions",
    ),
    Edit(
        "accelerator nodes from an image without the driver",
        TRAINIUM,
        'ami_type="AL2023_x86_64_NEURON"',
        'ami_type="AL2023_x86_64_STANDARD"',
        "Nodegroup of trn2.48xlarge: AmiType",
    ),
    Edit(
        "local disks mounted one by one",
        TRAINIUM,
        "      strategy: RAID0\n",
        "      strategy: Mount\n",
        "LaunchTemplate of trn2.48xlarge: localStorage",
    ),
    Edit(
        "an update that wants a second accelerator node",
        TRAINIUM,
        'max_unavailable=1, update_strategy="MINIMAL"',
        'max_unavailable=1, update_strategy="DEFAULT"',
        "Nodegroup of trn2.48xlarge: UpdateStrategy",
    ),
    Edit(
        "roles of pods trust any namespace",
        ROLES,
        '        "kubernetes-namespace": namespace,\n',
        "",
        "whom it trusts",
    ),
    Edit(
        "both ways to hand out devices at once",
        DEVICES,
        '"draDriver": {"enabled": True},\n            "devicePlugin": {"enabled": False},',
        '"draDriver": {"enabled": True},\n            "devicePlugin": {"enabled": True},',
        "HelmChart/neuron: enabled",
    ),
    Edit(
        "network policies accepted and not enforced",
        CATALOGUE,
        '{"enableNetworkPolicy": "true"}',
        '{"enableNetworkPolicy": "false"}',
        "Addon/vpc-cni: enableNetworkPolicy",
    ),
    Edit(
        "no metrics of the devices",
        CATALOGUE,
        '"neuronMonitor": {"enabled": True}',
        '"neuronMonitor": {"enabled": False}',
        "Addon/amazon-cloudwatch-observability: neuronMonitor",
    ),
    Edit(
        "log groups under names that the agent does not take",
        INSIGHTS,
        '_KINDS = ("application", "dataplane", "host", "performance")',
        '_KINDS = ("application", "dataplanes", "host", "performance")',
        "LogGroups: names",
    ),
    Edit(
        "models through the NAT gateway",
        NETWORK,
        "subnets=[*subnets, *map(_as_subnet, self._nodes.values())]",
        "subnets=[*subnets]",
        "VPCEndpoint of S3: route table",
    ),
    Edit(
        "accelerator nodes in the first zone, whatever is chosen",
        STACK,
        "subnet_id=network.node_subnet(self._place.zone),",
        "subnet_id=network.private_subnets()[0],",
        "Nodegroup of trn2.48xlarge: zones of its subnets",
    ),
    Edit(
        "guard leaves one node",
        GUARDS,
        '"DesiredSize": 0',
        '"DesiredSize": 1',
        "cluster, smallest and desired size",
    ),
    Edit(
        "alarms when nothing runs",
        ALARMS,
        "treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING",
        "treat_missing_data=cloudwatch.TreatMissingData.BREACHING",
        "TreatMissingData",
    ),
    Edit(
        "volume read with the driver's rights",
        STORAGE,
        '"authenticationSource": "pod",',
        '"authenticationSource": "driver",',
        "authenticationSource",
    ),
    Edit(
        "extended support bought unasked",
        CLUSTER,
        '"UpgradePolicy", {"SupportType": "STANDARD"}',
        '"UpgradePolicy", {"SupportType": "EXTENDED"}',
        "UpgradePolicy",
    ),
    Edit(
        "path to S3 open to every bucket",
        NETWORK,
        'resources=[bucket.bucket_arn, bucket.arn_for_objects("*")],',
        'resources=["*"],',
        "VPCEndpoint of S3: what may be done with everything",
    ),
    Edit(
        "default security group left open",
        NETWORK,
        "restrict_default_security_group=True,",
        "restrict_default_security_group=False,",
        "closed default security groups",
    ),
)
"""Slips of the same kind elsewhere."""

EDITS = (*SEVENTEEN, *OTHERS)
