"""Every gate over one example: what a person who deploys it would otherwise find out from AWS."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aws_cdk as cdk
import kubernetes_validate
from cdk_nag import AwsSolutionsChecks
from cfnlint import ManualArgs, lint

from specdec.catalog.offers import OFFERS
from specdec.experiment.fields import Experiment
from tests.stack.agreements import AGREEMENTS, Deployed
from tests.stack.synthesis import Template, app_of
from tests.strict_schema import require_valid

IGNORED = ("W3005", "W3010")
"""The CDK writes DependsOn even where a reference says the same; capacity is in named zones."""


def failures(experiment: Experiment) -> Iterator[str]:
    """What any gate has against an experiment: security pack and the CDK's own validation, cfn-lint, strict
    schemas of every Kubernetes version, agreements across objects.
    """
    with tempfile.TemporaryDirectory() as folder:
        app = app_of(experiment, outdir=folder, validate=True)
        cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))
        with contextlib.suppress(RuntimeError):
            app.synth()
        reports = json.loads((Path(folder) / "validation-report.json").read_text())["pluginReports"]
        for report in reports:
            for violation in report["violations"]:
                yield f"{report['pluginName']}: {violation['ruleName']}"
        if {report["pluginName"] for report in reports} < {"CloudFormation Validate", "AwsSolutions"}:
            yield "a gate did not run"
        for region in experiment.regions:
            text = (Path(folder) / f"{experiment.stack_name(region)}.template.json").read_text()
            yield from _of_template(Template(text), experiment, region)


def _of_template(template: Template, experiment: Experiment, region: str) -> Iterator[str]:
    yield from _of_cloudformation(template, experiment, region)
    yield from of_objects(template, experiment, region)


def _of_cloudformation(template: Template, experiment: Experiment, region: str) -> Iterator[str]:
    settings = ManualArgs(regions=[region], ignore_checks=list(IGNORED))
    offered = {offer.region for offer in OFFERS[experiment.capacity.instance_type]}
    for found in lint(template.text, config=settings):
        # Its list of types by region lags behind what EC2's API answered (specdec/catalog/offers.py).
        lags = found.rule.id == "E3628" and f"'{experiment.capacity.instance_type}' is not" in found.message
        if not (lags and region in offered):
            yield f"cfn-lint: {found}"


def of_objects(template: Template, experiment: Experiment, region: str) -> Iterator[str]:
    """What strict schemas and the agreements across objects have against a template."""
    deployed = Deployed(template, experiment, region)
    for item in deployed.objects:
        try:
            require_valid(item)
        except kubernetes_validate.ValidationError as error:
            yield f"schema {error.version}: {item['kind']}/{item['metadata']['name']}: {error}"
    for name, agree in AGREEMENTS.items():
        for place, there, expected in agree(deployed):
            yield f"{name}: {place} is {there!r}, expected {expected!r}"
