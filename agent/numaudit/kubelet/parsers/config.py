"""The kubelet's settings from its files, its flags or its own answer. Pure: texts in, values out.

What is in force is the configuration file, then its drop-in files in the order of their names, then
the flags. A map given by a flag replaces the file's map, except for feature gates, which are merged.

Sources: cmd/kubelet/app/{server,options/options}.go, k8s.io/component-base/cli/flag/map_string_string.go,
k8s.io/kubelet/config/v1beta1 (defaults), KEP-3983 (drop-in files).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from numaudit import yaml_values
from numaudit.containermanager.memory.reserved import parse_reserved_memory
from numaudit.errors import InputError, ParseError
from numaudit.intent.kubelet import KubeletConfig
from numaudit.yaml_values import YamlLimits

ConfigDocument = Mapping[str, object]

LIMITS = YamlLimits(1 << 20, 20_000, 20, 2_000)
"""A configuration has some hundred settings, and a list of reserved memory with a few entries for each node."""
_BEGINNINGS = (b",", b":", b"[", b"{")
"""Each value in JSON comes after one of these, or is one."""

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

# Flag -> field of KubeletConfiguration, by the kind of its value.
_TEXTS = {
    "memory-manager-policy": "memoryManagerPolicy",
    "cpu-manager-policy": "cpuManagerPolicy",
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
    "reserved-cpus": "reservedSystemCPUs",
    "address": "address",
}
_NUMBERS = {"port": "port", "read-only-port": "readOnlyPort"}
_MAPS = {
    "kube-reserved": ("kubeReserved", "="),
    "system-reserved": ("systemReserved", "="),
    "eviction-hard": ("evictionHard", "<"),
    "cpu-manager-policy-options": ("cpuManagerPolicyOptions", "="),
    "topology-manager-policy-options": ("topologyManagerPolicyOptions", "="),
}
_PATHS = ("config", "config-dir", "root-dir")
_OTHERS = ("feature-gates", "reserved-memory")
_KNOWN = frozenset([*_TEXTS, *_NUMBERS, *_MAPS, *_PATHS, *_OTHERS])


class KubeletFlags(Struct, frozen=True):
    """Flags of the kubelet that numaudit uses."""

    fields: ConfigDocument = field(default_factory=dict)
    """As fields of a KubeletConfiguration."""
    config: str | None = None
    config_dir: str | None = None
    root_dir: str | None = None


def read_flags(arguments: Sequence[str]) -> KubeletFlags:
    """The command line without the program's name. Flags of other subjects are passed over.

    Raises ParseError for a value that the kubelet would refuse.
    """
    given = _collect(arguments)
    fields: dict[str, object] = {name: given[flag][-1] for flag, name in _TEXTS.items() if flag in given}
    for flag, name in _NUMBERS.items():
        if flag in given:
            fields[name] = _number(flag, given[flag][-1])
    for flag, (name, sign) in _MAPS.items():
        if flag in given:
            fields[name] = _pairs(flag, given[flag], sign)
    if "feature-gates" in given:
        pairs = _pairs("feature-gates", given["feature-gates"], "=")
        fields["featureGates"] = {gate: _boolean("feature-gates", value) for gate, value in pairs.items()}
    if "reserved-memory" in given:
        fields["reservedMemory"] = _reserved_memory(given["reserved-memory"])
    config, config_dir, root_dir = (given[flag][-1] if flag in given else None for flag in _PATHS)
    return KubeletFlags(fields, config, config_dir, root_dir)


def known_flags(arguments: Sequence[str]) -> tuple[str, ...]:
    """Only those flags of a command line that `read_flags` reads, as --name=value."""
    return tuple(f"--{name}={value}" for name, values in _collect(arguments).items() for value in values)


def _collect(arguments: Sequence[str]) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {}
    left = iter(arguments)
    for argument in left:
        if argument == "--":
            break
        if not argument.startswith("-"):
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if name not in _KNOWN:
            continue
        if not equals:
            value = next(left, "")
        given.setdefault(name, []).append(value)
    return given


def _number(flag: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ParseError(f"--{flag}: not a number: {text[:60]!r}") from None


def _pairs(flag: str, values: Sequence[str], sign: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in ",".join(values).split(","):
        key, found, value = part.partition(sign)
        if not part.strip():
            continue
        if not found:
            raise ParseError(f"--{flag}: expected KEY{sign}VALUE, found {part[:60]!r}")
        pairs[key.strip()] = value.strip()
    return pairs


def _boolean(flag: str, text: str) -> bool:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise ParseError(f"--{flag}: expected true or false, found {text[:60]!r}")


def _reserved_memory(values: Sequence[str]) -> list[dict[str, object]]:
    try:
        reservations = parse_reserved_memory(values)
    except InputError as error:
        raise ParseError(f"--reserved-memory: {error}") from None
    return [
        {"numaNode": one.numa_node, "limits": {name: str(quantity) for name, quantity in one.limits.items()}}
        for one in reservations
    ]


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
    if len(body) > LIMITS.size or sum(map(body.count, _BEGINNINGS)) > LIMITS.values:
        raise ParseError(f"larger than {LIMITS.size} bytes or {LIMITS.values} values, which no configuration has")
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
        origins=origins,
    )
