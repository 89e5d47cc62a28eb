"""What objects of a template have to agree on among themselves.

Nothing here compares with a recorded text: every check holds one object against another, or against the
experiment, so that a wrong edit is named by what it breaks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from specdec.catalog.instances import INSTANCES
from specdec.experiment.fields import Experiment
from tests.stack.synthesis import Template, flat

Object = dict[str, Any]
Disagreement = tuple[str, object, object]
"""Which field of which object, what is there, what was expected."""

TAINT_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute"}
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
PORT = 8000
"""Where vLLM listens by default."""
MOUNT_OPTIONS = ("allow-other", "maximum-throughput-gbps 100", "prefix models/", "read-only")
"""Options of Mountpoint for S3, beside region and throughput: other users than root read, nobody writes, and
a prefix ends in its slash, else it would show the siblings too (mountpoint-s3 doc/CONFIGURATION.md).
"""


@dataclass(frozen=True)
class Deployed:
    """A template with the experiment it was made from."""

    template: Template
    experiment: Experiment
    region: str

    @cached_property
    def objects(self) -> list[Object]:
        return [item for items in self.template.manifests.values() for item in items]

    def kind(self, *kinds: str) -> list[Object]:
        return [item for item in self.objects if item["kind"] in kinds]

    @cached_property
    def pods(self) -> dict[str, Object]:
        """Pod template by the object that makes pods of it."""
        return {name_of(item): item["spec"]["template"] for item in self.kind("Deployment", "Job")}

    def owners(self, selector: Mapping[str, str]) -> list[str]:
        """Makers of the pods that a selector selects."""
        return [owner for owner, pod in self.pods.items() if labelled(pod["metadata"]["labels"], selector)]

    @cached_property
    def groups(self) -> list[tuple[Object, Object]]:
        """Node groups, each with the data of its launch template."""
        return [
            (
                group["Properties"],
                self.template.resources[group["Properties"]["LaunchTemplate"]["Id"]["Ref"]]["Properties"][
                    "LaunchTemplateData"
                ],
            )
            for group in self.template.of_type("AWS::EKS::Nodegroup").values()
        ]


def name_of(item: Object) -> str:
    return f"{item['kind']}/{item['metadata']['name']}"


def containers(pod: Object) -> list[Object]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def environment(container: Object) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in container.get("env", [])}


def labelled(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    return selector.items() <= labels.items()


def namespaces(deployed: Deployed) -> Iterator[Disagreement]:
    (namespace,) = deployed.kind("Namespace")
    cluster_wide = ("ClusterRole", "ClusterRoleBinding", "Namespace", "PersistentVolume")
    for item in deployed.objects:
        there = item["metadata"].get("namespace")
        expected = None if item["kind"] in cluster_wide else namespace["metadata"]["name"]
        if there != expected:
            yield (f"{name_of(item)}: metadata.namespace", there, expected)


def _meeting(deployed: Deployed, service: Object) -> Iterator[Disagreement]:
    """The service that leads to the first pod of a Job is where its pods are told to meet."""
    name, selector = name_of(service), dict(service["spec"]["selector"])
    if selector.pop(INDEX_LABEL) != "0":
        yield (f"{name}: index", service["spec"]["selector"], "the pod with index 0, which listens")
    jobs = deployed.owners(selector)
    if len(jobs) != 1:
        yield (f"{name}: Jobs that spec.selector selects", jobs, "one")
    (port,) = service["spec"]["ports"]
    address = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc:{port['port']}"
    for job in jobs:
        met = environment(containers(deployed.pods[job])[0]).get("SPECDEC_MEET")
        if met != address:
            yield (f"{job}: SPECDEC_MEET", met, address)


def services(deployed: Deployed) -> Iterator[Disagreement]:
    deployments = {item["metadata"]["name"]: item for item in deployed.kind("Deployment")}
    for service in deployed.kind("Service"):
        name = name_of(service)
        if INDEX_LABEL in service["spec"]["selector"]:
            yield from _meeting(deployed, service)
            continue
        deployment = deployments.get(service["metadata"]["name"])
        if deployment is None:
            yield (f"{name}: Deployments of its name", sorted(deployments), service["metadata"]["name"])
            continue
        pod = deployment["spec"]["template"]
        labels, selector = pod["metadata"]["labels"], service["spec"]["selector"]
        if not labelled(labels, selector):
            yield (f"{name}: spec.selector", selector, f"within the pods' labels {labels}")
        selected = deployed.owners(selector)
        if selected != [name_of(deployment)]:
            yield (f"{name}: whose pods spec.selector selects", selected, [name_of(deployment)])
        if deployment["spec"]["selector"]["matchLabels"] != selector:
            yield (f"{name_of(deployment)}: spec.selector", deployment["spec"]["selector"], selector)
        ports = {port["name"] for made in pod["spec"]["containers"] for port in made.get("ports", [])}
        for port in service["spec"]["ports"]:
            if port["targetPort"] not in ports:
                yield (f"{name}: targetPort", port["targetPort"], f"one of the container ports {ports}")


def addresses(deployed: Deployed) -> Iterator[Disagreement]:
    """The client's URLs are the Services, by name, namespace and port."""
    known = {
        f"{item['metadata']['name']}.{item['metadata']['namespace']}.svc": item
        for item in deployed.kind("Service")
    }
    for owner, pod in deployed.pods.items():
        for made in containers(pod):
            urls: dict[str, str] = json.loads(environment(made).get("SERVICES", "{}"))
            if urls and list(urls) != sorted(variant.name for variant in deployed.experiment.variants):
                yield (f"{owner}: variants in SERVICES", list(urls), "those of the experiment")
            for variant, url in urls.items():
                address = urlsplit(url)
                service = known.get(address.hostname or "")
                if service is None:
                    yield (
                        f"{owner}: host of {variant} in SERVICES",
                        address.hostname,
                        f"one of {sorted(known)}",
                    )
                    continue
                ports = [port["port"] for port in service["spec"]["ports"]]
                if ports != [address.port]:
                    yield (f"{name_of(service)}: ports", ports, f"[{address.port}], which {owner} is told")


def server_ports(deployed: Deployed) -> Iterator[Disagreement]:
    for deployment in deployed.kind("Deployment"):
        (server,) = [
            made for made in deployment["spec"]["template"]["spec"]["containers"] if made.get("ports")
        ]
        ports = {port["name"]: port["containerPort"] for port in server["ports"]}
        words = server["args"]
        told = int(words[words.index("--port") + 1])
        if list(ports.values()) != [told] or told != PORT:
            yield (f"{name_of(deployment)}: containerPort and --port", (ports, told), PORT)
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            asked = server[probe].get("httpGet", {}).get("port", "http")
            if asked not in ports:
                yield (f"{name_of(deployment)}: port of {probe}", asked, f"one of {sorted(ports)}")


def policies(deployed: Deployed) -> Iterator[Disagreement]:
    """Every policy selects pods that exist, and lets in only who exists, to a port that is served."""
    labels = {owner: pod["metadata"]["labels"] for owner, pod in deployed.pods.items()}
    for policy in deployed.kind("NetworkPolicy"):
        name, selector = name_of(policy), policy["spec"]["podSelector"].get("matchLabels", {})
        if not any(labelled(each, selector) for each in labels.values()):
            yield (f"{name}: podSelector", selector, f"within the labels of some pod {labels}")
        for rule in policy["spec"].get("ingress", []):
            ports = [port["port"] for port in rule["ports"]]
            served = {
                int(met.rpartition(":")[2])
                for owner in labels
                if labelled(labels[owner], selector)
                and (met := environment(containers(deployed.pods[owner])[0]).get("SPECDEC_MEET"))
            } or {PORT}
            if ports != sorted(served):
                yield (f"{name}: ports let in", ports, sorted(served))
            for peer in rule["from"]:
                allowed = peer.get("podSelector", {}).get("matchLabels")
                senders = [
                    owner for owner in labels if allowed is not None and labelled(labels[owner], allowed)
                ]
                told = [
                    owner
                    for owner, pod in deployed.pods.items()
                    if "SERVICES" in environment(containers(pod)[0])
                ]
                if allowed is not None and senders != told:
                    yield (f"{name}: pods let in", senders, told)
    covered = {
        owner
        for owner, each in labels.items()
        for policy in deployed.kind("NetworkPolicy")
        if "Ingress" in policy["spec"]["policyTypes"]
        and labelled(each, policy["spec"]["podSelector"].get("matchLabels", {}))
    }
    if covered != set(labels):
        yield ("NetworkPolicy: pods whose ingress is closed", sorted(covered), sorted(labels))


def egress(deployed: Deployed) -> Iterator[Disagreement]:
    """What a pod may reach outside is not the network it is in."""
    own = deployed.experiment.cluster.vpc_cidr
    rules = [
        (name_of(policy), peer.get("ipBlock", {}))
        for policy in deployed.kind("NetworkPolicy")
        for rule in policy["spec"].get("egress", [])
        for peer in rule["to"]
    ]
    for name, block in rules:
        # Without a way to the internet the endpoints of AWS lie in the VPC itself.
        if (
            block.get("cidr") == "0.0.0.0/0"
            and (own in block["except"]) != deployed.experiment.network.internet
        ):
            yield (f"{name}: except", block["except"], own)
    closed = {
        owner
        for policy in deployed.kind("NetworkPolicy")
        if "Egress" in policy["spec"]["policyTypes"]
        for owner in deployed.owners(policy["spec"]["podSelector"].get("matchLabels", {}))
    }
    jobs = {name_of(job) for job in deployed.kind("Job")}
    if closed != jobs:
        yield ("NetworkPolicy: pods whose egress is closed", sorted(closed), sorted(jobs))


def scheduling(deployed: Deployed) -> Iterator[Disagreement]:
    """Each pod has a node group that it may run on: selector, affinity, taints and tolerations."""
    for owner, pod in deployed.pods.items():
        spec = pod["spec"]
        tolerated = {(one["key"], one.get("effect")) for one in spec.get("tolerations", [])}
        fits: list[str] = []
        for group, launch in deployed.groups:
            labels = {**group["Labels"], INSTANCE_TYPE_LABEL: launch["InstanceType"]}
            taints = {(one["Key"], TAINT_EFFECTS[one["Effect"]]) for one in group.get("Taints", [])}
            if (
                labelled(labels, spec.get("nodeSelector", {}))
                and admits(labels, spec)
                and taints <= tolerated
            ):
                fits.append(launch["InstanceType"])
                if taints != tolerated:
                    yield (f"{owner}: tolerations", sorted(tolerated), sorted(taints))
        needs_devices = bool(spec.get("resourceClaims")) or spec.get("schedulerName") is not None
        capacity = deployed.experiment.capacity
        expected = [capacity.instance_type if needs_devices else capacity.system_instance_type]
        if fits != expected:
            yield (f"{owner}: instance types of the node groups that it may run on", fits, expected)
    accelerators = [group for group, launch in deployed.groups if launch["InstanceType"] in INSTANCES]
    for group in accelerators:
        if not group.get("Taints"):
            yield (f"Nodegroup/{group['NodegroupName']}: Taints", None, "one that only servers tolerate")


def admits(labels: Mapping[str, str], spec: Object) -> bool:
    """Whether a required node affinity lets the pod onto a node with these labels."""
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(
        all(
            (labels.get(one["key"]) in one["values"]) == (one["operator"] == "In")
            for one in term["matchExpressions"]
        )
        for term in required["nodeSelectorTerms"]
    )


ACCOUNT_OF = {"Deployment": "server", "Job/stage": "stager", "Job/llmperf": "benchmark"}


def accounts(deployed: Deployed) -> Iterator[Disagreement]:
    """The service account of a pod exists, is the one of its role, and its association trusts exactly it."""
    made = {
        (item["metadata"]["namespace"], item["metadata"]["name"]) for item in deployed.kind("ServiceAccount")
    }
    associations = deployed.template.of_type("AWS::EKS::PodIdentityAssociation").values()
    bound = {(one["Properties"]["Namespace"], one["Properties"]["ServiceAccount"]) for one in associations}
    if made != bound:
        yield ("PodIdentityAssociation: namespaces and service accounts", sorted(bound), sorted(made))
    for association in associations:
        properties = association["Properties"]
        role = deployed.template.resources[properties["RoleArn"]["Fn::GetAtt"][0]]["Properties"]
        for statement in role["AssumeRolePolicyDocument"]["Statement"]:
            condition = statement["Condition"]["StringEquals"]
            expected = {
                "eks-cluster-name": properties["ClusterName"],
                "kubernetes-namespace": properties["Namespace"],
                "kubernetes-service-account": properties["ServiceAccount"],
            }
            there = {tag: condition.get(f"aws:RequestTag/{tag}") for tag in expected}
            if there != expected:
                yield (f"role of {properties['ServiceAccount']}: whom it trusts", there, expected)
    for owner, pod in deployed.pods.items():
        there = pod["spec"]["serviceAccountName"]
        (expected,) = [account for start, account in ACCOUNT_OF.items() if owner.startswith(start)]
        if there != expected:
            yield (f"{owner}: serviceAccountName", there, expected)


def volumes(deployed: Deployed) -> Iterator[Disagreement]:
    """What a pod mounts is there: config maps, the claim, the claim's volume."""
    maps = {item["metadata"]["name"]: item for item in deployed.kind("ConfigMap")}
    claims = {item["metadata"]["name"] for item in deployed.kind("PersistentVolumeClaim")}
    for owner, pod in deployed.pods.items():
        declared = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        for volume in declared.values():
            if "configMap" in volume and volume["configMap"]["name"] not in maps:
                yield (f"{owner}: config map", volume["configMap"]["name"], f"one of {sorted(maps)}")
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim is not None and claim not in claims:
                yield (f"{owner}: claim", claim, f"one of {sorted(claims)}")
        for made in containers(pod):
            mounts = {mount["mountPath"]: mount["name"] for mount in made["volumeMounts"]}
            for mount in mounts.values():
                if mount not in declared:
                    yield (f"{owner}: {made['name']} mounts", mount, f"one of {sorted(declared)}")


def storage(deployed: Deployed) -> Iterator[Disagreement]:
    """The mount shows the models of the stack's own bucket, read-only, to every user of the pod."""
    (volume,) = deployed.kind("PersistentVolume")
    (claim,) = deployed.kind("PersistentVolumeClaim")
    spec, name = volume["spec"], name_of(volume)
    options = set(spec["mountOptions"])
    if options != {*MOUNT_OPTIONS, f"region {deployed.region}"}:
        yield (
            f"{name}: mountOptions",
            sorted(options),
            sorted({*MOUNT_OPTIONS, f"region {deployed.region}"}),
        )
    bound = (spec["claimRef"]["namespace"], spec["claimRef"]["name"], claim["spec"]["volumeName"])
    expected = (claim["metadata"]["namespace"], claim["metadata"]["name"], volume["metadata"]["name"])
    if bound != expected:
        yield (f"{name}: claimRef and volumeName", bound, expected)
    attributes = spec["csi"]["volumeAttributes"]
    if attributes["authenticationSource"] != "pod":
        yield (f"{name}: authenticationSource", attributes["authenticationSource"], "pod")
    for place, there in buckets(deployed):
        if there != bucket_of(deployed):
            yield (place, there, bucket_of(deployed))
    if spec["csi"]["driver"] != "s3.csi.aws.com":
        yield (f"{name}: driver", spec["csi"]["driver"], "s3.csi.aws.com")


def bucket_of(deployed: Deployed) -> str:
    kept = deployed.experiment.placement[deployed.region].bucket
    return kept or f"<{deployed.template.named('ModelStoreBucket', 'AWS::S3::Bucket')}>"


def buckets(deployed: Deployed) -> Iterator[tuple[str, str]]:
    (volume,) = deployed.kind("PersistentVolume")
    yield f"{name_of(volume)}: bucketName", volume["spec"]["csi"]["volumeAttributes"]["bucketName"]
    for owner, pod in deployed.pods.items():
        for made in containers(pod):
            if "BUCKET" in environment(made):
                yield f"{owner}: BUCKET of {made['name']}", environment(made)["BUCKET"]


def regions(deployed: Deployed) -> Iterator[Disagreement]:
    for owner, pod in deployed.pods.items():
        for made in containers(pod):
            there = environment(made).get("AWS_REGION", deployed.region)
            if there != deployed.region:
                yield (f"{owner}: AWS_REGION of {made['name']}", there, deployed.region)


def devices(deployed: Deployed) -> Iterator[Disagreement]:
    """Claim, its template, its size, its instance type and its logical core size are the experiment's."""
    experiment = deployed.experiment
    if experiment.serving.allocation != "dra":
        return
    templates = {
        item["metadata"]["name"]: item["spec"]["spec"] for item in deployed.kind("ResourceClaimTemplate")
    }
    by_service = {variant.service: variant for variant in experiment.variants}
    for deployment in deployed.kind("Deployment"):
        owner, spec = name_of(deployment), deployment["spec"]["template"]["spec"]
        (claim,) = spec["resourceClaims"]
        template = templates.get(claim["resourceClaimTemplateName"])
        if template is None:
            yield (
                f"{owner}: claim template",
                claim["resourceClaimTemplateName"],
                f"one of {sorted(templates)}",
            )
            continue
        (request,) = template["devices"]["requests"]
        wanted = experiment.settings(by_service[deployment["metadata"]["name"]]).devices
        if request["exactly"]["count"] != wanted:
            yield (f"{owner}: devices claimed", request["exactly"]["count"], wanted)
        (selector,) = request["exactly"]["selectors"]
        if f"'{experiment.capacity.instance_type}'" not in selector["cel"]["expression"]:
            yield (
                f"{owner}: claim's selector",
                selector["cel"]["expression"],
                experiment.capacity.instance_type,
            )
        server = spec["containers"][0]
        used = [entry["name"] for entry in server["resources"].get("claims", [])]
        if used != [claim["name"]]:
            yield (f"{owner}: claims of {server['name']}", used, [claim["name"]])
        (configuration,) = template["devices"]["config"]
        size = experiment.serving.logical_core_size
        there = (
            configuration["opaque"]["parameters"]["logicalNeuronCore"],
            environment(server)["NEURON_LOGICAL_NC_CONFIG"],
        )
        if there != (size, str(size)):
            yield (f"{owner}: logical core size in claim and environment", there, (size, str(size)))
        names = {request["name"]}
        for part in (configuration, *template["devices"].get("constraints", [])):
            if set(part["requests"]) != names:
                yield (f"{owner}: requests of {sorted(part)}", part["requests"], sorted(names))


def node_groups(deployed: Deployed) -> Iterator[Disagreement]:
    for group, launch in deployed.groups:
        accelerated = launch["InstanceType"] in INSTANCES
        expected = "AL2023_x86_64_NEURON" if accelerated else "AL2023_x86_64_STANDARD"
        if group["AmiType"] != expected:
            yield (f"Nodegroup of {launch['InstanceType']}: AmiType", group["AmiType"], expected)
        if len(group["Subnets"]) != (1 if accelerated else 2):
            yield (f"Nodegroup of {launch['InstanceType']}: Subnets", group["Subnets"], "1 or 2")
        for subnet in group["Subnets"]:
            if "public" in subnet["Ref"].lower():
                yield (f"Nodegroup of {launch['InstanceType']}: Subnets", subnet["Ref"], "a private subnet")


def guards(deployed: Deployed) -> Iterator[Disagreement]:
    """A schedule turns off the group that exists."""
    schedules = deployed.template.of_type("AWS::Scheduler::Schedule").values()
    calls = [json.loads(flat(schedule["Properties"]["Target"]["Input"])) for schedule in schedules]
    called = [call["NodegroupName"] for call in calls if "NodegroupName" in call]
    for group, _ in deployed.groups:
        name = group.get("NodegroupName")
        if called and name is not None and name not in called:
            yield (f"Schedules: NodegroupName of {name}", sorted(set(called)), name)


def clients(deployed: Deployed) -> Iterator[Disagreement]:
    """As many pods as the experiment has clients, each with a node of its own, and an index if several."""
    wanted = deployed.experiment.benchmark.clients
    (job,) = [item for item in deployed.kind("Job") if item["metadata"]["name"].startswith("llmperf")]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    said = int(environment(container).get("SPECDEC_CLIENTS", 1))
    pods = job["spec"].get("completions", 1)
    mode = job["spec"].get("completionMode", "NonIndexed")
    expected = (wanted, wanted, "Indexed" if wanted > 1 else "NonIndexed")
    if (said, pods, mode) != expected:
        yield ("Job: clients told, pods, mode", (said, pods, mode), expected)
    for group, launch in deployed.groups:
        if launch["InstanceType"] not in INSTANCES:
            size = group["ScalingConfig"]["DesiredSize"]
            if size < wanted:
                yield ("Nodegroup of system nodes: DesiredSize", size, f"at least {wanted}")


def scaling(deployed: Deployed) -> Iterator[Disagreement]:
    """Who may scale has a token and is told the Deployments there are."""
    deployments = sorted(item["metadata"]["name"] for item in deployed.kind("Deployment"))
    roles = [(role, rule) for role in deployed.kind("Role") for rule in role["rules"]]
    rules = [(role, rule) for role, rule in roles if "deployments/scale" in rule["resources"]]
    for role, rule in rules:
        if sorted(rule["resourceNames"]) != deployments:
            yield (f"{name_of(role)}: resourceNames", rule["resourceNames"], deployments)
    bindings = deployed.kind("RoleBinding")
    bound = [subject["name"] for binding in bindings for subject in binding["subjects"]]
    wanted = {variant.name: variant.service for variant in deployed.experiment.variants}
    for owner, pod in deployed.pods.items():
        spec = pod["spec"]
        texts = [environment(made).get("DEPLOYMENTS") for made in containers(pod)]
        scaled = [json.loads(text) for text in texts if text]
        if scaled and spec.get("automountServiceAccountToken") is not True:
            yield (f"{owner}: automountServiceAccountToken", False, "True, as it scales")
        if scaled and spec["serviceAccountName"] not in bound:
            yield (f"{owner}: serviceAccountName", spec["serviceAccountName"], f"one of {bound}")
        if scaled and scaled != [wanted]:
            yield (f"{owner}: DEPLOYMENTS", scaled, [wanted])
    up = sum(item["spec"]["replicas"] for item in deployed.kind("Deployment"))
    expected = 1 if rules else len(deployments)
    if up != expected:
        yield ("Deployments: replicas to start with", up, expected)


AGREEMENTS: dict[str, Callable[[Deployed], Iterator[Disagreement]]] = {
    "namespaces": namespaces,
    "services": services,
    "addresses": addresses,
    "server ports": server_ports,
    "policies": policies,
    "egress": egress,
    "scheduling": scheduling,
    "accounts": accounts,
    "volumes": volumes,
    "storage": storage,
    "regions": regions,
    "devices": devices,
    "node groups": node_groups,
    "guards": guards,
    "clients": clients,
    "scaling": scaling,
}
