"""The chart, rendered by Go's own template engine, is what kustomize builds; Helm itself is not here."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
import yaml

import generate_chart
from clusters.manifests import Manifest, build, container, of_kind, pod, unordered
from generate_chart import CHART, COMPONENTS, camel_case
from numaudit import __version__
from required import tool


def merged(tree: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`tree` with the values of another on top, as Helm merges them.

    Maps are merged key by key, lists and scalars are replaced as a whole, and null removes a key.
    """
    both = {key: value for key, value in {**tree, **over}.items() if value is not None}
    for key in tree.keys() & both.keys() & over.keys():
        if isinstance(tree[key], dict) and isinstance(over[key], dict):
            both[key] = merged(tree[key], over[key])
    return both


RIGHTS = {"pages", "passive", "privileged"}
ADDED = {"nrt-own"}
"""To another component."""
CA = {"kubelet": {"ca_file": "/etc/ca.crt"}}
CHOICES = [
    (),
    *((name,) for name in COMPONENTS if name not in ADDED),
    *(
        pair
        for pair in combinations(COMPONENTS, 2)
        if not (set(pair) <= RIGHTS or (ADDED & {*pair} and "nrt" not in pair))
    ),
    *((rights, *(name for name in COMPONENTS if name not in RIGHTS)) for rights in sorted(RIGHTS)),
]
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
ENDPOINT = {"NUMAUDIT_OTLP_ENDPOINT": "http://collector:4318/v1/metrics"}
DIGEST = f"sha256:{'a' * 64}"
OF_THE_CHART = {"app.kubernetes.io/managed-by", "helm.sh/chart"}


@pytest.fixture(scope="module", autouse=True)
def chart() -> None:
    """As `make chart` makes it."""
    generate_chart.main([str(tool("kustomize")), "build"])


def _render(values: dict[str, Any], namespace: str = "numaudit") -> list[Manifest]:
    """The objects that the chart makes of its default values and these. Raises ValueError with the message."""
    return [one for one in yaml.load_all(_text(values, namespace), yaml.CSafeLoader) if one]


def _text(values: dict[str, Any], namespace: str, name: str = "*.yaml") -> str:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    data = {
        "Values": merged(DEFAULTS, values),
        "Release": {"Namespace": namespace, "Name": "numaudit", "Service": "Helm"},
        # Helm has these keys with a capital letter
        "Chart": {key[0].upper() + key[1:]: value for key, value in chart.items()},
    }
    templates = [CHART / "templates/_helpers.tpl", *sorted((CHART / "templates").glob(name))]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "data.json").write_text(json.dumps(data))
        (home / "template").write_text("\n---\n".join(path.read_text() for path in templates))
        command = [str(tool("chezmoi")), "execute-template", "--override-data-file", f"{home}/data.json", "--file"]
        environment = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder}
        done = subprocess.run(
            [*command, f"{home}/template"], env=environment, capture_output=True, text=True, check=False, cwd=folder
        )
    if done.returncode:
        raise ValueError(done.stderr)
    return str(done.stdout)


def _with(*components: str) -> dict[str, Any]:
    return {"components": {camel_case(name): True for name in components}, "otlp": {"settings": ENDPOINT}}


def _together(*components: str) -> dict[str, Any]:
    """With the setting that some need together."""
    needed = {"settings": CA} if {"hide-keys", "api-server"} <= {*components} else {}
    return merged(_with(*components), needed)


def _compared(objects: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    """Objects by kind and name, without what the chart adds, and without what kustomize adds to a name."""
    found = {}
    for one in objects:
        if one["kind"] == "Namespace":
            continue
        name = one["metadata"]["name"]
        if one["kind"] == "ConfigMap" and name.startswith("numaudit-otlp"):
            one["metadata"] = {"name": (name := "numaudit-otlp"), "namespace": "numaudit"}
        labels = one["metadata"].get("labels", {})
        one["metadata"]["labels"] = {key: labels[key] for key in labels.keys() - OF_THE_CHART}
        if one["kind"] == "DaemonSet":
            one["spec"]["template"]["metadata"].pop("annotations", None)
            for source in container([one]).get("envFrom", ()):
                if "configMapRef" in source:
                    source["configMapRef"]["name"] = "numaudit-otlp"
        if one["kind"] == "ConfigMap" and "agent.yaml" in one["data"]:
            one["data"]["agent.yaml"] = yaml.safe_load(one["data"]["agent.yaml"])
            one["data"]["agent.yaml"].pop("kubelet", None)
        found[one["kind"], name] = unordered(one)
    return found


@pytest.mark.parametrize("components", CHOICES, ids="-".join)
def test_the_chart_makes_the_objects_that_kustomize_builds(components: tuple[str, ...]) -> None:
    assert _compared(_render(_together(*components))) == _compared(list(build(*components)))


def test_every_object_goes_into_the_namespace_of_the_release() -> None:
    names = [name for name in COMPONENTS if name not in RIGHTS]
    objects = _render(_together(*names), namespace="observing")
    assert {one["metadata"]["namespace"] for one in objects if "ClusterRole" not in one["kind"]} == {"observing"}
    bindings = of_kind(objects, "ClusterRoleBinding")
    assert len(bindings) == 2
    for binding in bindings:
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "numaudit", "namespace": "observing"}]


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        ({"repository": "r.example/n"}, f"r.example/n:{__version__}"),
        ({"repository": "r.example/n", "tag": "edge"}, "r.example/n:edge"),
        (
            {"repository": "r.example/n", "tag": "edge", "digest": f"sha256:{'a' * 64}"},
            f"r.example/n@sha256:{'a' * 64}",
        ),
    ],
)
def test_an_image_is_named_by_digest_tag_or_version_of_the_chart(image: dict[str, str], shown: str) -> None:
    assert container(_render({"image": image}))["image"] == shown


def test_values_reach_the_pod() -> None:
    values = {
        "env": [{"name": "NUMAUDIT_LOG_LEVEL", "value": "debug"}],
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"pool": "numa"},
        "affinity": {"nodeAffinity": {}},
        "tolerations": [],
        "podAnnotations": {"owner": "us"},
        "priorityClassName": "mine",
        "resources": {"requests": {"cpu": 1}, "limits": None},
        "updateStrategy": {"type": "OnDelete", "rollingUpdate": None},
        "kubeletRoot": "/data/kubelet",
        "journal": "/run/log/journal",
        "components": {"kubeletLog": True},
    }
    objects = _render(values)
    (daemonset,) = of_kind(objects, "DaemonSet")
    spec, agent = pod(objects), container(objects)
    assert daemonset["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert daemonset["spec"]["template"]["metadata"]["annotations"] == {"owner": "us"}
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "numa"}
    for key in ("imagePullSecrets", "affinity", "tolerations", "priorityClassName"):
        assert spec[key] == values[key]
    assert agent["resources"] == {"requests": {"cpu": 1, "memory": "96Mi"}}
    assert agent["env"][-1] == {"name": "NUMAUDIT_LOG_LEVEL", "value": "debug"}
    paths = {one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    paths |= {one["mountPath"] for one in agent["volumeMounts"]}
    assert {"/data/kubelet", "/data/kubelet/pods", "/data/kubelet/plugins", "/run/log/journal"} <= paths
    assert not any(path.startswith(("/var/lib/kubelet", "/var/log/journal")) for path in paths)


def test_settings_and_what_operators_select_by_are_values() -> None:
    values = {
        "settings": {"listen": ":1", "kubelet": {"url": "https://x"}},
        "monitoring": {"labels": {"release": "prometheus"}},
        "metricsFrom": [{"podSelector": {}}],
        "components": {"monitoring": True},
    }
    objects = _render(values)
    (settings,) = [one for one in of_kind(objects, "ConfigMap") if "agent.yaml" in one["data"]]
    assert yaml.safe_load(settings["data"]["agent.yaml"]) == values["settings"]
    for kind in ("PodMonitor", "PrometheusRule"):
        (one,) = of_kind(objects, kind)
        assert one["metadata"]["labels"]["release"] == "prometheus"
    (policy,) = of_kind(objects, "NetworkPolicy")
    assert policy["spec"]["ingress"][0]["from"] == [{"podSelector": {}}]


def test_another_receiver_restarts_the_agents() -> None:
    def annotation(endpoint: str) -> str:
        values = merged(_with("otlp"), {"otlp": {"settings": {"NUMAUDIT_OTLP_ENDPOINT": endpoint}}})
        (daemonset,) = of_kind(_render(values), "DaemonSet")
        return cast("str", daemonset["spec"]["template"]["metadata"]["annotations"]["checksum/otlp"])

    assert annotation("http://one:4318") == annotation("http://one:4318") != annotation("http://two:4318")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (_with("pages", "passive"), "use at most one of pages, passive and privileged"),
        (_with("pages", "privileged"), "use at most one of pages, passive and privileged"),
        (_with("passive", "privileged"), "use at most one of pages, passive and privileged"),
        (_with("nrt-own"), "components.nrtOwn: it adds to nrt and does nothing without it"),
        (_with("hide-keys", "api-server"), "leave one out, or set settings.kubelet.ca_file"),
        (merged(_with("hide-keys", "api-server"), {"settings": {"kubelet": {"url": "https://x"}}}), "ca_file"),
        ({"components": {"otlp": True}}, "otlp.settings.NUMAUDIT_OTLP_ENDPOINT must name the receiver"),
    ],
)
def test_values_that_contradict_each_other_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _render(values)


@pytest.mark.parametrize(
    "values",
    [
        {"settings": CA},
        {"settings": {"kubelet.ca_file": "/etc/ca.crt"}},
        {"env": [{"name": "NUMAUDIT_KUBELET_CA_FILE", "value": "/etc/ca.crt"}]},
    ],
)
def test_hidden_keys_go_with_the_kubelets_pages_where_its_authority_is_named(values: dict[str, Any]) -> None:
    assert _render(merged(_with("hide-keys", "api-server"), values))


def test_the_notes_render() -> None:
    assert "kubectl -n observing exec daemonset/numaudit" in _text({}, "observing", "NOTES.txt")


def test_the_schema_has_every_value_and_refuses_others() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.validate(DEFAULTS, schema)
    assert set(schema["properties"]) == {*DEFAULTS, "global"}
    assert set(schema["properties"]["components"]["properties"]) == {*DEFAULTS["components"]}
    assert {camel_case(name) for name in COMPONENTS} == {*DEFAULTS["components"]}
    refused: tuple[dict[str, Any], ...] = (
        {"component": {}},
        {"components": {"apiserver": True}},
        {"components": {"tls": "yes"}},
        {"image": {"digest": "sha256:1"}},
        {"otlp": {"settings": {"OTLP_ENDPOINT": "x"}}},
        {"kubeletRoot": "var/lib/kubelet/"},
        {"settings": {"listen": 5}},
        {"settings": {"listn": ":1"}},
        {"settings": {"web": {"timout": "5s"}}},
        {"settings": {"web": {"timeout": 301}}},
        {"settings": {"web": "5s"}},
        {"settings": {"web.timeout": "5 seconds"}},
        {"settings": {"nrt": {"publish": "yes"}}},
        {"settings": {"metrics": {"labels": ["nope"]}}},
    )
    for wrong in refused:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(merged(DEFAULTS, wrong), schema)


def test_the_schema_has_the_settings_that_the_agent_has() -> None:
    """Nested or with a dot, and an empty value leaves a setting as it is."""
    written = (CHART / "values.schema.json").read_text()
    settings = {"web": {"timeout": "250ms"}, "interval": 20, "metrics.max_series": "1000", "otlp": None, "probes": []}
    jsonschema.validate(merged(DEFAULTS, {"settings": settings}), json.loads(written))


def test_the_version_of_the_chart_is_that_of_the_agent() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
    assert chart["description"] and "\n" not in chart["description"]
