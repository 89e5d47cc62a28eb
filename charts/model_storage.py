"""The bucket's models as a read-only folder, through the Mountpoint S3 CSI driver."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_27 import k8s
from constructs import Construct

from charts.names import NAMESPACE, short_hash
from specdec.serving.layout import MODELS

DRIVER = "s3.csi.aws.com"

MOUNT_MEMORY = "16Gi"
"""Limit of the pod that holds the mount: without one Mountpoint aims at 95 % of the node's memory."""


MOUNT_GBPS = 100
"""Throughput that Mountpoint aims at. Left out, it asks the instance metadata for the network's, which a pod
cannot reach, and takes 10 (mountpoint-s3 doc/CONFIGURATION.md, --maximum-throughput-gbps).
"""


def _options(region: str) -> list[str]:
    return [
        "allow-other",
        f"maximum-throughput-gbps {MOUNT_GBPS}",
        f"prefix {MODELS}",
        "read-only",
        f"region {region}",
    ]


def claim_name(region: str, kept_bucket: str | None) -> str:
    """Name of volume and claim. The source of a volume cannot be changed, so another bucket or option is
    another volume.

    Args:
        region: the region.
        kept_bucket: the bucket that the experiment brings; the stack's own has no name before it is deployed.
    """
    return f"models-{short_hash([_options(region), MOUNT_MEMORY, kept_bucket])}"


class ModelStorage(cdk8s.Chart):
    """A static volume over the ``models/`` prefix and the claim that binds it.

    Writers do not go through the mount (no rename, no append): they upload with the AWS CLI. Each pod mounts
    with its own identity (``authenticationSource: pod``), so the driver itself needs no right to the bucket.
    Option names: awslabs/mountpoint-s3-csi-driver docs/CONFIGURATION.md (57c6bed, 2026-08-08).
    """

    def __init__(
        self, scope: Construct, id_: str, *, region: str, bucket: str, kept_bucket: str | None
    ) -> None:
        super().__init__(scope, id_, disable_resource_name_hashes=True)
        name = claim_name(region, kept_bucket)
        # The driver ignores capacity, the API insists on one.
        capacity = k8s.Quantity.from_string("1Ti")
        k8s.KubePersistentVolume(
            self,
            "volume",
            metadata=k8s.ObjectMeta(name=name, labels={"app.kubernetes.io/part-of": "specdec"}),
            spec=k8s.PersistentVolumeSpec(
                access_modes=["ReadOnlyMany"],
                capacity={"storage": capacity},
                claim_ref=k8s.ObjectReference(name=name, namespace=NAMESPACE),
                mount_options=_options(region),
                persistent_volume_reclaim_policy="Retain",
                storage_class_name="",
                csi=k8s.CsiPersistentVolumeSource(
                    driver=DRIVER,
                    volume_handle=name,
                    volume_attributes={
                        "authenticationSource": "pod",
                        "bucketName": bucket,
                        "mountpointContainerResourcesLimitsMemory": MOUNT_MEMORY,
                    },
                ),
            ),
        )
        k8s.KubePersistentVolumeClaim(
            self,
            "claim",
            metadata=k8s.ObjectMeta(
                name=name, namespace=NAMESPACE, labels={"app.kubernetes.io/part-of": "specdec"}
            ),
            spec=k8s.PersistentVolumeClaimSpec(
                access_modes=["ReadOnlyMany"],
                resources=k8s.ResourceRequirements(requests={"storage": capacity}),
                storage_class_name="",
                volume_name=name,
            ),
        )
