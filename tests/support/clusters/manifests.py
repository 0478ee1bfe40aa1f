"""The manifests below deploy/ as kustomize builds them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml

import tools

Manifest = dict[str, Any]
DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
COMPONENTS = tuple(sorted(path.parent.name for path in DEPLOY.glob("components/*/kustomization.yaml")))
EXAMPLES = tuple(sorted(path.parent for path in DEPLOY.glob("examples/*/kustomization.yaml")))
_NEEDED = {
    "otlp": {
        "name": "numaudit-otlp",
        "namespace": "numaudit",
        "literals": ["NUMAUDIT_OTLP_ENDPOINT=http://collector:4318/v1/metrics"],
    }
}
"""What a component leaves to whoever uses it."""


def build(*components: str, namespace: str | None = None) -> tuple[Manifest, ...]:
    """deploy/base with these components, in this order. Raises CalledProcessError, or Unavailable without kustomize."""
    return deepcopy(_build(components, namespace))


@cache
def _build(components: tuple[str, ...], namespace: str | None) -> tuple[Manifest, ...]:
    with tempfile.TemporaryDirectory() as folder:
        deploy = os.path.relpath(DEPLOY, Path(folder).resolve())
        own: Manifest = {
            "resources": [f"{deploy}/base"],
            "components": [f"{deploy}/components/{name}" for name in components],
            "configMapGenerator": [_NEEDED[name] for name in components if name in _NEEDED],
        }
        if namespace is not None:
            own["namespace"] = namespace
        Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(own))
        return build_folder(Path(folder))


def build_folder(folder: Path, command: Sequence[str | Path] = ()) -> tuple[Manifest, ...]:
    """What `kustomize build` makes of a folder."""
    program = command or [tools.find("kustomize"), "build"]
    done = subprocess.run([*program, folder], capture_output=True, text=True, check=True)
    return tuple(yaml.load_all(done.stdout, yaml.CSafeLoader))


def of_kind(manifests: Sequence[Manifest], kind: str) -> list[Manifest]:
    return [one for one in manifests if one["kind"] == kind]


def daemonset(manifests: Sequence[Manifest]) -> Manifest:
    (found,) = of_kind(manifests, "DaemonSet")
    return found


def pod(manifests: Sequence[Manifest]) -> Manifest:
    """The spec of the agent's pods."""
    found: Manifest = daemonset(manifests)["spec"]["template"]["spec"]
    return found


def container(manifests: Sequence[Manifest]) -> Manifest:
    (found,) = pod(manifests)["containers"]
    return cast("Manifest", found)


def unordered(value: Any) -> Any:  # noqa: ANN401 (YAML)
    """Lists in one order: that of volumes, mounts, variables and policies means nothing."""
    if isinstance(value, dict):
        return {key: unordered(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted(map(unordered, value), key=lambda one: json.dumps(one, sort_keys=True))
    return value
