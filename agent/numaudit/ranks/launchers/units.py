"""Memory policies that a container as a whole is started with: by its systemd unit, or by its runtime.

Source: systemd.exec(5); the OCI runtime specification 1.3.0, config-linux.md.
"""

from __future__ import annotations

import re

import msgspec

from numaudit.errors import ParseError
from numaudit.ranks.declaration import Declaration, Placeable, PolicyKind, Told
from numaudit.ranks.launcher import Launcher
from numaudit.topology.nodeset import CpuSet, NodeSet

_SETTING = re.compile(r"^[ \t]*(NUMAPolicy|NUMAMask|CPUAffinity)[ \t]*=[ \t]*([a-z0-9,\- ]{0,512})$", re.MULTILINE)
_LIST = re.compile(r"[0-9,\-]{0,512}", re.ASCII)
_UNIT_POLICIES: dict[str, PolicyKind] = {
    "bind": "bind",
    "preferred": "preferred",
    "interleave": "interleave",
    "local": "local",
}
_MODES: dict[str, PolicyKind] = {
    "MPOL_BIND": "bind",
    "MPOL_PREFERRED": "preferred",
    "MPOL_PREFERRED_MANY": "preferred-many",
    "MPOL_INTERLEAVE": "interleave",
    "MPOL_WEIGHTED_INTERLEAVE": "weighted-interleave",
    "MPOL_LOCAL": "local",
}


def settings_in(unit_files: list[str]) -> dict[str, str]:
    """Of a unit's file and its drop-ins, in their order: the last assignment counts, an empty one resets."""
    found: dict[str, str] = {}
    for text in unit_files:
        found.update(_SETTING.findall(text))
    return {name: value.strip() for name, value in found.items() if value.strip()}


class _MemoryPolicy(msgspec.Struct):
    mode: str
    nodes: str = ""


class _Linux(msgspec.Struct):
    memory_policy: _MemoryPolicy | None = msgspec.field(name="memoryPolicy", default=None)


class _Config(msgspec.Struct):
    linux: _Linux | None = None


def memory_policy_in(config: bytes) -> dict[str, str]:
    """`mode` and `nodes` of a config.json; nothing else of it is kept. Raises ParseError."""
    try:
        linux = msgspec.json.decode(config, type=_Config).linux
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"not a runtime's config.json: {type(error).__name__}") from None
    policy = None if linux is None else linux.memory_policy
    if policy is None or policy.mode not in _MODES or not _LIST.fullmatch(policy.nodes):
        return {}
    return {"mode": policy.mode, "nodes": policy.nodes}


def _systemd(told: Told, here: Placeable) -> Declaration | None:
    mask, name = told.unit.get("NUMAMask", ""), told.unit.get("NUMAPolicy")
    affinity = told.unit.get("CPUAffinity")
    cpus = None
    if affinity == "numa":
        cpus = here.cpus_on(_nodes(mask, here))
    elif affinity is not None:
        cpus = CpuSet.parse(",".join(affinity.replace(",", " ").split()))
    policy = None if name is None else _UNIT_POLICIES.get(name)
    if policy is None and cpus is None:
        return None
    nodes = None if policy in (None, "local") else _nodes(mask, here)
    source = "CPUAffinity=" if policy is None else "NUMAPolicy="
    return Declaration("systemd", source, "unit", policy, nodes, cpus)


def _nodes(mask: str, here: Placeable) -> NodeSet:
    return here.nodes if mask in ("all", "") else NodeSet.parse(mask.replace(" ", ","))


def _oci(told: Told, here: Placeable) -> Declaration | None:
    mode = told.runtime.get("mode")
    if mode is None:
        return None
    nodes = NodeSet.parse(told.runtime["nodes"]) if told.runtime["nodes"] else None
    return Declaration("oci", "linux.memoryPolicy", "runtime", _MODES[mode], nodes)


ROWS = (
    Launcher(
        "oci",
        "OCI runtimes (runc, crun)",
        "https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md",
        ("linux.memoryPolicy",),
        _oci,
        tried=("crun 1",),
    ),
    Launcher(
        "systemd",
        "systemd units",
        "https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html",
        ("NUMAPolicy=", "NUMAMask=", "CPUAffinity="),
        _systemd,
        tried=("systemd 252",),
    ),
)
