"""Whether EKS offers the add-ons that the stack asks for, and takes the settings it gives them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from specdec.aws import calls, pages
from specdec.catalog.addons import ADDONS, AddOn, addon_versions
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def addons(scope: Scope) -> Iterator[Finding]:
    """Every add-on of the stack must be offered in the version that it asks for, with a schema that takes its
    settings. Those that an existing cluster has are left alone.
    """
    cluster, eks = scope.experiment.cluster, scope.clients("eks")
    place = scope.experiment.placement[scope.region]
    there = place.cluster_addons if place.cluster_name else ()
    for name, wanted in addon_versions(cluster.kubernetes_version, cluster.addon_versions).items():
        if name in there:
            continue
        with calls():
            answer = pages(
                eks,
                "describe_addon_versions",
                "addons",
                addonName=name,
                kubernetesVersion=cluster.kubernetes_version,
            )
        offered = {
            entry["addonVersion"]: any(one.get("defaultVersion") for one in entry.get("compatibilities", []))
            for addon in answer
            for entry in addon["addonVersions"]
        }
        finding = judge_addon(
            offered, addon=ADDONS[name], kubernetes=cluster.kubernetes_version, wanted=wanted
        )
        yield finding
        if finding.level == "ok" and ADDONS[name].values:
            with calls():
                answer = eks.describe_addon_configuration(addonName=name, addonVersion=wanted)
            yield judge_settings(answer.get("configurationSchema", ""), addon=ADDONS[name], version=wanted)


def judge_addon(offered: Mapping[str, bool], *, addon: AddOn, kubernetes: str, wanted: str) -> Finding:
    """Reads the versions of one add-on that go with a Kubernetes version.

    Args:
        offered: version, newest first, to whether it is the one that EKS would choose.
        addon: the add-on.
        kubernetes: the Kubernetes version.
        wanted: the version that the stack asks for.
    """
    default = next((version for version, chosen in offered.items() if chosen), None)
    aside = ""
    if default is not None and default != wanted:
        old = ", which is too old for the settings of the stack" if addon.below_floor(default) else ""
        aside = f"; the default of EKS is {default}{old}"
    if not offered:
        return Finding(
            "add-ons",
            "blocker",
            f"{addon.name} has no version for Kubernetes {kubernetes}",
            "Set cluster.kubernetes_version to another one",
        )
    if wanted in offered:
        return Finding("add-ons", "ok", f"{addon.name} {wanted} goes with Kubernetes {kubernetes}{aside}")
    usable = next((version for version in offered if not addon.below_floor(version)), None)
    if usable is None:
        return Finding(
            "add-ons",
            "blocker",
            f"{addon.name} is offered for Kubernetes {kubernetes} up to {next(iter(offered))}{aside};"
            f" {addon.floor_source}",
            "Set cluster.kubernetes_version to another one",
        )
    return Finding(
        "add-ons",
        "blocker",
        f"{addon.name} {wanted} is not offered for Kubernetes {kubernetes}{aside}",
        f'Set cluster.addon_versions.{addon.name} = "{usable}"',
    )


def judge_settings(schema: str, *, addon: AddOn, version: str) -> Finding:
    """Holds the settings of an add-on against its own schema, as EKS does when it creates the add-on.

    Args:
        schema: the answer's JSON schema as text; empty where the add-on takes no settings.
        addon: the add-on.
        version: the version that has this schema.
    """
    from jsonschema import validators

    document: dict[str, Any] = (
        json.loads(schema) if schema else {"properties": {}, "additionalProperties": False}
    )
    errors = [
        f"{'.'.join(map(str, error.absolute_path)) or 'the top'}: {error.message}"
        for error in validators.validator_for(document)(document).iter_errors(dict(addon.values))
    ]
    if errors:
        return Finding(
            "add-ons",
            "blocker",
            f"{addon.name} {version} does not take the settings of the stack: {'; '.join(sorted(errors))}",
            f"Set cluster.addon_versions.{addon.name} to a version that does. What it takes: aws eks"
            f" describe-addon-configuration --addon-name {addon.name} --addon-version {version}",
        )
    return Finding("add-ons", "ok", f"{addon.name} {version} takes the settings of the stack")
