"""The benchmark pod: it waits for every service, measures both lanes, and leaves the run in the bucket."""

from __future__ import annotations

import base64
import bz2
import io
import json
import shlex
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import cdk8s
from cdk8s_plus_27 import k8s
from constructs import Construct

from charts.names import BENCHMARK, labels, service_url, short_hash
from charts.objects import (
    PYTHON_IMAGE,
    digest,
    empty_dir,
    environment,
    metadata,
    off_instances,
    quantities,
    restricted,
)
from charts.vllm_service import STAGING_SECONDS
from specdec.errors import BadInputError, Mistake
from specdec.prompts.files import read as read_prompts
from specdec.prompts.sets import SHIPPED
from specdec.prompts.sets import load as load_prompts

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment

ROOT = Path(__file__).parents[1]
POD = Path(__file__).parent / "pod"
HOME = "/opt/specdec"

CODE = (
    "__init__.py",
    "atomic.py",
    "aws.py",
    "benchmark/",
    "catalog/",
    "errors.py",
    "experiment/",
    "llmperf/",
    "metrics/",
    "pod/",
    "prompts/",
    "publish/",
    "runs/",
    "text.py",
)
"""What the pod imports, below ``specdec``; a test imports its entry from nothing else."""

LAPTOP = ("runs/find.py",)
"""What of it only a command line uses: a run is looked for there, and made in the pod."""

MEASURING_SECONDS = 6 * 3600


def sources() -> dict[str, str]:
    """The pod's own code and prompt sets: path in the archive to text."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "specdec").rglob("*")):
        name = path.relative_to(ROOT / "specdec").as_posix()
        if path.suffix in (".py", ".jsonl") and name.startswith(CODE) and name not in LAPTOP:
            found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    return found


def archive(texts: Mapping[str, str]) -> bytes:
    """A tar archive of files that depends on nothing but them: no times, no owners.

    Compressed, because a manifest that the CDK hands to its kubectl function must stay below 200 KB; with
    bzip2, because its output is the same everywhere, while that of zlib depends on which zlib Python was
    built with.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, text in texts.items():
            content = text.encode()
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return bz2.compress(buffer.getvalue())


def prompt_file(prompts: str) -> Path | None:
    """The user's own prompt file, or None for a shipped set.

    Raises:
        BadInputError: it cannot be read or is wrong, found here before the pod finds it hours into a
            deployment; or its path cannot be made again in the pod, where the experiment names it by the same
            path.
    """
    if prompts in SHIPPED:
        return None
    path = Path(prompts)
    if path.is_absolute() or ".." in path.parts:
        remedy = "Put it below the folder you deploy from and name it by its path from there"
        raise BadInputError(
            "experiment", [Mistake("benchmark.prompts", prompts, "is not below the current folder", remedy)]
        )
    load_prompts(prompts)
    return path


class LlmPerf(cdk8s.Chart):
    """The Job and the config map with its code.

    A Job cannot be changed, so its name carries a hash over everything it does; another experiment is another
    Job.
    """

    def __init__(
        self, scope: Construct, id_: str, *, experiment: Experiment, region: str, bucket: str
    ) -> None:
        super().__init__(scope, id_, disable_resource_name_hashes=True)
        own = prompt_file(experiment.benchmark.prompts)
        texts = {
            "experiment.json": json.dumps(experiment.resolved(), indent=1, sort_keys=True),
            **{
                path.name: path.read_text(encoding="utf-8")
                for path in sorted(POD.glob("*"))
                if path.is_file()
            },
            **({f"prompts-{own.name}": read_prompts(own)} if own else {}),
        }
        code = base64.b64encode(archive(sources())).decode()
        files = f"llmperf-{digest([*texts, *texts.values(), code])}"
        k8s.KubeConfigMap(
            self,
            "files",
            metadata=metadata(files, labels("llmperf", "benchmark")),
            data=texts,
            binary_data={"code.tar.bz2": code},
        )
        # A server waits for its weights before it starts.
        waiting = experiment.serving.startup_minutes * 60 + STAGING_SECONDS
        values = {
            "AWS_REGION": region,
            "EXPERIMENT": f"{HOME}/experiment.json",
            "HOME": "/work",
            "PYTHONPATH": "/work/code",
            "SERVICES": json.dumps(
                {v.name: service_url(v.service) for v in experiment.variants},
                separators=(",", ":"),
                sort_keys=True,
            ),
            "STACK": experiment.stack_name(region),
            "WAIT_SECONDS": str(waiting),
        }
        steps = [
            f"python -m tarfile -e {HOME}/code.tar.bz2 /work/code",
            *(
                [f"install -D {HOME}/prompts-{shlex.quote(own.name)} {shlex.quote(own.as_posix())}"]
                if own
                else []
            ),
            f"exec bash {HOME}/start.sh",
        ]
        accelerator = experiment.capacity.instance_type
        suspended = experiment.capacity.desired_nodes == 0
        job = f"llmperf-{short_hash([values, steps, files, PYTHON_IMAGE, accelerator])}"
        selector = labels("llmperf", "benchmark")
        k8s.KubeJob(
            self,
            "job",
            metadata=metadata(job, selector),
            spec=k8s.JobSpec(
                active_deadline_seconds=waiting + MEASURING_SECONDS,
                backoff_limit=1,
                suspend=suspended,
                template=k8s.PodTemplateSpec(
                    metadata=k8s.ObjectMeta(labels=selector),
                    spec=self._pod(files, steps, {**values, "BUCKET": bucket}, accelerator),
                ),
            ),
        )

    @staticmethod
    def _pod(files: str, steps: list[str], values: dict[str, str], accelerator: str) -> k8s.PodSpec:
        return k8s.PodSpec(
            affinity=off_instances(accelerator),
            automount_service_account_token=False,
            restart_policy="Never",
            service_account_name=BENCHMARK,
            security_context=k8s.PodSecurityContext(fs_group=1000),
            volumes=[
                k8s.Volume(name="files", config_map=k8s.ConfigMapVolumeSource(name=files)),
                empty_dir("work", "20Gi"),
                empty_dir("tmp", "5Gi"),
            ],
            containers=[
                k8s.Container(
                    name="benchmark",
                    image=PYTHON_IMAGE,
                    command=["bash", "-c", " && ".join(steps)],
                    working_dir="/work",
                    env=environment(values),
                    resources=k8s.ResourceRequirements(
                        requests=quantities(cpu="4", memory="8Gi"), limits=quantities(memory="12Gi")
                    ),
                    security_context=restricted(),
                    volume_mounts=[
                        k8s.VolumeMount(name="files", mount_path=HOME, read_only=True),
                        k8s.VolumeMount(name="work", mount_path="/work"),
                        # An emptyDir, the container's own.
                        k8s.VolumeMount(name="tmp", mount_path="/tmp"),  # noqa: S108
                    ],
                )
            ],
        )
