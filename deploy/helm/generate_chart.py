"""Makes the Helm chart whole: `make chart`, or `.venv/bin/python deploy/helm/generate_chart.py kubectl kustomize`.

The base and each component are built by kustomize; `variants` turns their differences into conditions on
`.Values.components`. values.schema.json is the file beside this one with the agent's settings. Git keeps neither; what
the chart has of its own is in values.yaml, Chart.yaml, templates/_helpers.tpl and templates/NOTES.txt.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

import variants
from numaudit.config.settings import KEYS

HERE = Path(__file__).resolve().parent
CHART = HERE / "numaudit"
DEPLOY = HERE.parent
COMPONENTS = tuple(sorted(path.parent.name for path in DEPLOY.glob("components/*/kustomization.yaml")))
TOGETHER = (("monitoring", "tls"), ("nrt", "nrt-own"))
"""Pairs of which one changes what the other brings, in the order in which a kustomization lists them."""
OF_THE_USER = {"otlp": "numaudit-otlp"}
"""The ConfigMap that a component takes from its user; the chart makes it of values."""

Manifest = dict[str, Any]
Build = Callable[..., Sequence[Manifest]]
"""Names of components -> the objects that kustomize makes of the base with them."""


def _with(value: str, *lines: str) -> list[str]:
    """Lines for a value that is not empty."""
    return [f"{{{{- with .Values.{value} }}}}", *lines, "{{- end }}"]


_DAEMONSET = "DaemonSet/numaudit"
_POD = (_DAEMONSET, "spec", "template", "spec")
_AGENT = (*_POD, "containers", "agent")
_NAMESPACE = "{{ .Release.Namespace | quote }}"
_SLOTS: dict[variants.Path, str] = {
    (*_AGENT, "image"): '{{ template "numaudit.image" . }}',
    (*_AGENT, "resources"): "{{- toYaml .Values.resources | nindent 12 }}",
    (*_POD, "tolerations"): "{{- toYaml .Values.tolerations | nindent 8 }}",
    (*_POD, "priorityClassName"): "{{ .Values.priorityClassName | quote }}",
    (_DAEMONSET, "spec", "updateStrategy"): "{{- toYaml .Values.updateStrategy | nindent 4 }}",
    ("ConfigMap/numaudit", "data", "agent.yaml"): "|{{- toYaml .Values.settings | nindent 4 }}",
    ("ConfigMap/numaudit-otlp", "data"): "{{- toYaml .Values.otlp.settings | nindent 2 }}",
    ("NetworkPolicy/numaudit", "spec", "ingress", "*", "from"): "{{- toYaml .Values.metricsFrom | nindent 6 }}",
    ("ClusterRoleBinding/numaudit", "subjects", "numaudit", "namespace"): _NAMESPACE,
    ("ClusterRoleBinding/numaudit-nrt", "subjects", "numaudit", "namespace"): _NAMESPACE,
}
_ENDINGS: dict[variants.Path, list[str]] = {
    (*_POD, "nodeSelector"): _with("nodeSelector", "{{- toYaml . | nindent 8 }}"),
    (*_AGENT, "env"): _with("env", "{{- toYaml . | nindent 12 }}"),
    _POD: [
        *_with("imagePullSecrets", "imagePullSecrets: {{- toYaml . | nindent 8 }}"),
        *_with("affinity", "affinity: {{- toYaml . | nindent 8 }}"),
    ],
    (_DAEMONSET, "spec", "template", "metadata"): [
        "{{- if or .Values.podAnnotations .Values.components.otlp }}",
        "annotations:",
        *_with("podAnnotations", "{{- toYaml . | nindent 8 }}"),
        "{{- if .Values.components.otlp }}",
        "  checksum/otlp: {{ toYaml .Values.otlp.settings | sha256sum }}",
        "{{- end }}",
        "{{- end }}",
    ],
}
_OF_RELEASE = [
    "app.kubernetes.io/managed-by: {{ .Release.Service }}",
    "helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}",
]
_OF_MONITORING = ("PodMonitor", "PrometheusRule")
_FOLDERS = [
    ("/var/lib/kubelet", "{{ .Values.kubeletRoot }}"),
    ("/var/log/journal", "{{ .Values.journal }}"),
]


def templates(build: Build) -> dict[str, str]:
    """Name -> text of each generated template.

    Raises CalledProcessError as `build` does, and ValueError if the kustomization has lost what a value stands for.
    """
    built = {frozenset(names): _by_name(build(*names)) for names in ((), *((one,) for one in COMPONENTS), *TOGETHER)}
    texts, used = {}, set[variants.Path]()
    for name in sorted({name for objects in built.values() for name in objects}):
        if not name.startswith("Namespace/"):
            texts[f"{name.replace('/', '-').lower()}.yaml"], written = _template(name, built)
            used |= written
    if unused := (_SLOTS.keys() | _ENDINGS.keys()) - used:
        raise ValueError(f"the kustomization no longer has {sorted(map('.'.join, unused))}, which the chart fills")
    return texts


def _template(name: str, built: dict[variants.Switches, dict[str, Manifest]]) -> tuple[str, set[variants.Path]]:
    has = {on: objects[name] for on, objects in built.items() if name in objects}
    labels = _OF_RELEASE + (
        _with("monitoring.labels", "{{- toYaml . | nindent 4 }}") if name.startswith(_OF_MONITORING) else []
    )
    writer = variants.Writer(
        lambda component: f".Values.components.{camel_case(component)}",
        _SLOTS | {(name, "metadata", "namespace"): _NAMESPACE},
        _ENDINGS | {(name, "metadata", "labels"): labels},
        _FOLDERS if name == _DAEMONSET else [],
    )
    lines = writer.document(built.keys(), has, (name,))
    head = ["{{- /* Generated by generate_chart.py. */}}"]
    if name == _DAEMONSET:
        head.append('{{- template "numaudit.check" . }}')
    return "\n".join([*head, *lines]) + "\n", writer.used


def camel_case(component: str) -> str:
    """The switch of a component: kubelet-log -> kubeletLog."""
    first, *others = component.split("-")
    return first + "".join(map(str.capitalize, others))


def _by_name(objects: Sequence[Manifest]) -> dict[str, Manifest]:
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in objects}


def builder(command: Sequence[str]) -> Build:
    """Builds by a command such as `kubectl kustomize`, to which a folder is added."""

    def build(*names: str) -> list[Manifest]:
        with tempfile.TemporaryDirectory() as folder:
            deploy = os.path.relpath(DEPLOY, Path(folder).resolve())
            own = {
                "resources": [f"{deploy}/base"],
                "components": [f"{deploy}/components/{name}" for name in names],
                "configMapGenerator": [
                    {"name": OF_THE_USER[name], "namespace": "numaudit", "literals": ["NUMAUDIT_OTLP_ENDPOINT="]}
                    for name in names
                    if name in OF_THE_USER
                ],
                "generatorOptions": {"disableNameSuffixHash": True},
            }
            Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(own), encoding="utf-8")
            done = subprocess.run([*command, folder], stdout=subprocess.PIPE, text=True, check=True)
            return list(yaml.safe_load_all(done.stdout))

    return build


def values_schema() -> str:
    """The schema of the values, with the agent's settings: nested, or with a dot in their names."""
    settings: Manifest = {"type": "object", "additionalProperties": False, "properties": {}}
    for path in KEYS:
        settings["properties"][path] = {"$ref": f"#/definitions/{path}"}
        section, _, name = path.rpartition(".")
        if section:
            empty = {"type": ["object", "null"], "additionalProperties": False, "properties": {}}
            settings["properties"].setdefault(section, empty)["properties"][name] = settings["properties"][path]
    schema = json.loads((HERE / "values.schema.json").read_text(encoding="utf-8"))
    schema["properties"]["settings"] = settings
    schema["definitions"] = {
        path: {"description": f"{path}: {key.kind.what}", **key.kind.schema} for path, key in KEYS.items()
    }
    return json.dumps(schema, indent=2) + "\n"


def main(command: Sequence[str]) -> None:
    if not command:
        sys.exit("usage: generate_chart.py COMMAND...: a command that builds a folder, such as `kubectl kustomize`")
    try:
        texts = templates(builder(command))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"generate_chart.py: {error}")
    folder = CHART / "templates"
    for old in folder.glob("*.yaml"):
        old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (CHART / "values.schema.json").write_text(values_schema(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
