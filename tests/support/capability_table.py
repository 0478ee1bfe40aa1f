"""What each capability brings the agent, and what it brings whoever takes the agent over: measured in its container.

`python tests/support/capability_table.py [ROW...]` measures rows (all, unless some are named) on this machine, and
prints each as a line of JSON.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clusters import manifests
from confinement.agent import CHECKOUT, Pod
from confinement.node import NodeHere, node_here
from confinement.tries import BARE, ROOT, USER
from documentation import json_lines

GOLDEN = CHECKOUT / "tests/golden"
PRIVILEGED = "privileged"
NOTHING = "none"
SHORT = ("none", "BPF, PERFMON")
ROWS = (
    *("none", "BPF", "PERFMON", "BPF, PERFMON"),
    *(f"BPF, PERFMON, {one}" for one in ("SYS_PTRACE", "SYSLOG", "DAC_READ_SEARCH", "SYS_RESOURCE", "SYS_ADMIN")),
    PRIVILEGED,
)
"""Capabilities that are added to the base after ALL are dropped, or the component of that name."""

CLAIMS: Mapping[str, Sequence[str]] = {
    "use files of other users' processes through proc": (f"/proc/PID/root of {USER}", f"/proc/PID/root of {ROOT}"),
    "read the memory of other processes": (f"memory of {USER}", f"memory of {ROOT}"),
    "trace other processes": (f"ptrace of {USER}", f"ptrace of {ROOT}"),
    "signal other users' processes": (f"signal to {USER}",),
    "read other users' environments": (f"environment of {USER}",),
    "find out where single pages of others are": tuple(f"page's node of {whose}" for whose in (USER, ROOT, BARE)),
    "write to its own root": ("write to /",),
    "write to the kernel's settings": ("write to /sys", "write to /proc/sys", "write to tracefs"),
    "write to the kubelet's folder": ("write to the kubelet's folder",),
    "see the volumes of other pods": ("other pods' volumes", "write to other pods' volumes"),
    "open other users' files": ("another user's file", "files by handle"),
    "mount or change to the host's mounts": ("mount", "the host's mounts", "chroot"),
    "make a user namespace": ("user namespace",),
    "load kernel modules": ("kernel module",),
    "read the kernel's log and addresses": ("kernel log", "kernel's addresses"),
    "open raw sockets": ("raw socket",),
    "set the clock": ("clock",),
    "make device nodes": ("device nodes",),
    "raise its priority": ("higher priority",),
    "change processes by BPF, or see others' programs": ("BPF writes into processes", "others' BPF programs"),
}
"""What the restricted profile may not, on any kernel -> the tries that hold it."""
FORBIDDEN = frozenset(tried for tries in CLAIMS.values() for tried in tries)
ADMITTED = frozenset(
    (
        *("BPF map", "BPF reads kernel memory", "BPF sends signals", "perf events of all processes", "tracefs"),
        *("kubelet's checkpoint", "kubelet's keys", "write to a cgroup"),
        *(f"numa_maps of {whose}" for whose in (USER, ROOT, BARE)),
        *(f"environment of {whose}" for whose in (ROOT, BARE)),
        *(f"signal to {whose}" for whose in (ROOT, BARE)),
        *(f"{what} of {BARE}" for what in ("/proc/PID/root", "memory", "ptrace")),
    )
)
"""What the restricted profile may, at least on some kernels; docs/security.md says so."""


@dataclass(frozen=True, slots=True)
class Row:
    """One set of rights."""

    probes: Mapping[str, str]
    """BPF probe -> yes or no: whether it runs."""
    may: Mapping[str, str]
    """What was tried -> yes or no."""


@dataclass(frozen=True, slots=True)
class Table:
    kernel: str
    """The whole release, as `uname -r` says it."""
    rows: Mapping[str, Row]


def series(release: str) -> str:
    """`6.1` of `6.1.0-31-cloud-amd64`."""
    match = re.match(r"\d+\.\d+", release)
    assert match, release
    return match[0]


def recorded(release: str) -> Table | None:
    """The table of docs/security.md for this very kernel, or in a guest for its series; None = there is none."""
    file = _file(release)
    if not file.exists():
        return None
    found = _table(json.loads(file.read_text()))
    in_guest = "cloud" in release
    return found if in_guest or found.kernel == release else None


def all_recorded() -> list[Table]:
    """By kernel, oldest first."""
    found = [_table(json.loads(file.read_text())) for file in GOLDEN.glob("capabilities-*.json")]
    return sorted(found, key=lambda table: [int(word) for word in series(table.kernel).split(".")])


def measure(node: NodeHere, rows: Sequence[str]) -> dict[str, Row]:
    """Those of the rows whose capabilities this machine has to give."""
    given = {name.removeprefix("CAP_") for name in node.pod().node.capabilities}
    return {name: _measure(node, name) for name in rows if _wanted(name) <= given}


def write(release: str, lines: Iterable[str]) -> None:
    """What `main` printed, into the file for this kernel."""
    rows: dict[str, Any] = {}
    for line in lines:
        rows |= json.loads(line)
    document = {"kernel": release, "rows": {name: rows[name] for name in ROWS if name in rows}}
    _file(release).write_text(json_lines.written(document))


def _measure(node: NodeHere, name: str) -> Row:
    pod = node.pod(PRIVILEGED) if name == PRIVILEGED else _with(node.pod(), sorted(_wanted(name)))
    runs = {probe: "yes" if reason is None else "no" for probe, reason in node.probes(pod).items()}
    may = {tried: "yes" if answer == "yes" else "no" for tried, answer in node.tried(pod).items()}
    return Row(runs, may)


def _wanted(name: str) -> set[str]:
    return set() if name in (NOTHING, PRIVILEGED) else set(name.split(", "))


def _with(pod: Pod, capabilities: Sequence[str]) -> Pod:
    """The same pod with other capabilities."""
    changed = deepcopy(pod.manifests)
    manifests.container(changed)["securityContext"]["capabilities"] = {"drop": ["ALL"], "add": list(capabilities)}
    return replace(pod, manifests=changed)


def _file(release: str) -> Path:
    return GOLDEN / f"capabilities-{series(release)}.json"


def _table(document: Mapping[str, Any]) -> Table:
    rows = {name: Row(row["probes"], row["may"]) for name, row in document["rows"].items()}
    return Table(document["kernel"], rows)


def main() -> int:
    with node_here(CHECKOUT / ".cache/image/rootfs") as node:
        for name in sys.argv[1:] or ROWS:
            for row in measure(node, [name]).values():
                print(json.dumps({name: {"probes": row.probes, "may": row.may}}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
