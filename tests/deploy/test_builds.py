"""The base, each component and each pair of components build into what Kubernetes takes."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from clusters.manifests import COMPONENTS, DEPLOY, EXAMPLES, Manifest, build, build_folder, of_kind, pod, unordered
from numaudit.config.settings import Settings
from numaudit.exporters.catalogue import METRICS, labels_of

VERSIONS = ("1.25", "1.30", "1.33", "1.37")
WITHOUT_SCHEMA = {"PodMonitor", "PrometheusRule"}
"""Of the Prometheus Operator."""
RIGHTS = {"pages", "passive", "privileged"}
"""Each says which rights the agent has, so there is one at most."""
LATER = [("monitoring", "tls"), ("nrt", "nrt-own")]
"""The second changes what the first brings, so it comes after it."""
PAIRS = [pair for pair in combinations(COMPONENTS, 2) if not set(pair) <= RIGHTS]
ALL = [name for name in COMPONENTS if name not in RIGHTS]


def _by_name(manifests: tuple[Manifest, ...]) -> dict[tuple[str, str], Manifest]:
    found = {(one["kind"], one["metadata"]["name"]): one for one in manifests}
    assert len(found) == len(manifests)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid_in_a_version_of_kubernetes(version: str) -> None:
    builds = [build(), build(*ALL), *(build(name) for name in COMPONENTS), *map(build_folder, EXAMPLES)]
    objects = {json.dumps(one, sort_keys=True) for manifests in builds for one in manifests}
    kinds = set()
    for one in map(json.loads, sorted(objects)):
        if one["kind"] not in WITHOUT_SCHEMA:
            kubernetes_validate.validate(one, version, strict=True)
            kinds.add(one["kind"])
    assert {"Namespace", "DaemonSet", "ConfigMap", "NetworkPolicy", "ClusterRole"} <= kinds


def test_the_namespace_pins_the_version_of_each_pod_security_level() -> None:
    (namespace,) = of_kind(build(), "Namespace")
    labels = namespace["metadata"]["labels"]
    for mode in ("enforce", "audit", "warn"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "privileged"
        assert labels[f"pod-security.kubernetes.io/{mode}-version"] == f"v{VERSIONS[-1]}"


def test_a_scrape_is_limited_above_what_an_agent_gives() -> None:
    (monitor,) = of_kind(build("monitoring"), "PodMonitor")
    of_the_agent, of_the_target = 5000, 10
    assert monitor["spec"]["sampleLimit"] >= Settings().metrics.max_series + of_the_agent
    assert monitor["spec"]["labelLimit"] >= max(len(labels_of(metric)) for metric in METRICS) + of_the_target


def test_the_validation_refuses_a_field_that_does_not_exist() -> None:
    (wrong,) = json.loads(json.dumps(of_kind(build(), "DaemonSet")))
    wrong["spec"]["template"]["spec"]["hostPid"] = True
    with pytest.raises(kubernetes_validate.ValidationError, match="hostPid"):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_components_are_the_same_in_any_order(pair: tuple[str, str]) -> None:
    first, second = pair
    built = _by_name(build(first, second))
    alone = _by_name(build(first)).keys() | _by_name(build(second)).keys()
    assert built.keys() == alone
    if pair not in LATER:
        assert unordered(built) == unordered(_by_name(build(second, first)))


def test_of_the_components_that_say_which_rights_the_agent_has_passive_excludes_pages() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        build("passive", "pages")


def test_all_other_components_go_together_with_each_set_of_rights() -> None:
    for rights in RIGHTS:
        built = build(rights, *ALL)
        assert len(pod(built)["volumes"]) == len({one["name"] for one in pod(built)["volumes"]})
        mounted = [one["mountPath"] for one in pod(built)["containers"][0]["volumeMounts"]]
        assert len(mounted) == len(set(mounted))


@pytest.mark.parametrize("names", [(), *((name,) for name in COMPONENTS), tuple(ALL)], ids="-".join)
def test_another_namespace_takes_everything_along(names: tuple[str, ...]) -> None:
    built = build(*names, namespace="elsewhere")
    text = yaml.safe_dump_all(built)
    assert "namespace: numaudit" not in text
    assert {one["metadata"].get("namespace", "elsewhere") for one in built} == {"elsewhere"}
    assert [one["metadata"]["name"] for one in of_kind(built, "Namespace")] == ["elsewhere"]


def test_every_volume_that_is_mounted_is_there_and_mounted() -> None:
    for names in [(), tuple(ALL), *((name,) for name in COMPONENTS)]:
        spec = pod(build(*names))
        mounted = {one["name"] for one in spec["containers"][0]["volumeMounts"]}
        assert mounted == {one["name"] for one in spec["volumes"]}


def test_monitoring_brings_the_alerts_and_the_dashboards_as_they_are() -> None:
    top, manifests = DEPLOY.parent, build("monitoring")
    (rules,) = of_kind(manifests, "PrometheusRule")
    assert rules["spec"] == yaml.safe_load((DEPLOY / "rules/numaudit.prometheusrule.yaml").read_text())["spec"]
    shown = [
        one["data"] for one in of_kind(manifests, "ConfigMap") if one["metadata"]["labels"].get("grafana_dashboard")
    ]
    files = {name: text for data in shown for name, text in data.items()}
    assert files == {page.name: page.read_text() for page in (top / "dashboards").glob("*.json")}
    assert all(
        one["metadata"]["namespace"] == "numaudit"
        for one in manifests
        if one["kind"] in ("ConfigMap", "PrometheusRule")
    )


def test_every_object_of_the_project_is_labelled() -> None:
    ours = [one for one in build(*ALL) if not one["metadata"]["name"].startswith("numaudit-otlp-")]
    for one in ours:
        assert one["metadata"]["labels"]["app.kubernetes.io/name"] == "numaudit", one["kind"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
@pytest.mark.parametrize("folder", [DEPLOY / "base", *EXAMPLES], ids=lambda folder: folder.name)
def test_kubectl_builds_the_same(folder: Path) -> None:
    assert build_folder(folder, ["kubectl", "kustomize"]) == build_folder(folder)
