"""The kubelet's settings from its files, its flags or its own answer. Pure: texts in, values out.

What is in force is the configuration file, then its drop-in files in the order of their names, then
the flags. A map given by a flag replaces the file's map, except for feature gates, which are merged.

Sources: cmd/kubelet/app/server.go, k8s.io/kubelet/config/v1beta1 (defaults), KEP-3983 (drop-in files).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from numaudit.encoding import yaml_values
from numaudit.encoding.yaml_values import YamlLimits
from numaudit.errors import InputError, ParseError
from numaudit.intent.kubelet import KubeletConfig
from numaudit.memorymanager.configuration import ConfigDocument, unknown_fields

LIMITS = YamlLimits(1 << 20, 20_000, 20, 2_000)
"""A configuration has some hundred settings, and a list of reserved memory with a few entries for each node."""

DEFAULTS = {
    "memoryManagerPolicy": "None",
    "cpuManagerPolicy": "none",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
}
_FIELDS = {
    "memoryManagerPolicy": "memory_manager_policy",
    "cpuManagerPolicy": "cpu_manager_policy",
    "topologyManagerPolicy": "topology_manager_policy",
    "topologyManagerScope": "topology_manager_scope",
}


def parse_file(body: bytes, name: str) -> ConfigDocument:
    """A KubeletConfiguration in YAML or JSON, or a part of one. Raises ParseError that names the file."""
    try:
        document = yaml_values.read(body, name, LIMITS)
    except InputError as error:
        raise ParseError(str(error)) from None
    if document is None:
        return {}
    if not isinstance(document, dict) or document.get("kind", "KubeletConfiguration") != "KubeletConfiguration":
        raise ParseError(f"{name}: not a KubeletConfiguration")
    return document


def parse_configz(body: bytes) -> ConfigDocument:
    """The kubelet's answer to /configz: what is in force, defaults included. Raises ParseError."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not JSON: {error}") from None
    config = document.get("kubeletconfig") if isinstance(document, dict) else None
    if not isinstance(config, dict):
        raise ParseError("no kubeletconfig in it")
    return config


def merge(files: Sequence[ConfigDocument], flags: ConfigDocument) -> ConfigDocument:
    """The configuration in force: the file, its drop-in files, the flags."""
    document: ConfigDocument = {}
    for one in files:
        document = _patch(document, one)
    gates = document.get("featureGates")
    merged = {**document, **flags}
    own = flags.get("featureGates")
    if isinstance(gates, Mapping) and isinstance(own, Mapping):
        merged["featureGates"] = {**gates, **own}
    return merged


def _patch(document: ConfigDocument, patch: ConfigDocument) -> ConfigDocument:
    """Maps are merged, lists and plain values replaced, null takes away."""
    merged = dict(document)
    for key, value in patch.items():
        before = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            merged[key] = _patch(before, value)
        else:
            merged[key] = value
    return merged


def settle(document: ConfigDocument, flags: ConfigDocument, origin: str) -> KubeletConfig:
    """The settings of a configuration in force. `origin`: where it came from when not from a flag."""
    found: dict[str, str] = {}
    origins: dict[str, str] = {}
    for key, name in _FIELDS.items():
        value = document.get(key)
        if isinstance(value, str) and value:
            found[name], origins[name] = value, "flag" if key in flags else origin
        else:
            found[name], origins[name] = DEFAULTS[key], "default"
    gates = document.get("featureGates")
    return KubeletConfig(
        **found,
        feature_gates={name: on for name, on in gates.items() if isinstance(on, bool)}
        if isinstance(gates, Mapping)
        else {},
        document=document,
        ignored=tuple(f"{name}{near}" for name, near in unknown_fields(document).items() if near),
        origins=origins,
    )
