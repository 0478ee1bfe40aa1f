"""A checkpoint that the kubelet is writing: it writes the file more than once for one pod.

The Memory Manager writes the machine's state and then the pod's blocks, the CPU Manager the container's CPUs and then
the shared ones. A file between two such writes is whole, and its checksum fits, but it does not add up.

Source: pkg/kubelet/cm/memorymanager/policy_static.go (Allocate), pkg/kubelet/cm/cpumanager/policy_static.go (Allocate).
"""

from __future__ import annotations

from pathlib import Path
from time import sleep, time

from numaudit.kubelet import state_files
from numaudit.kubelet.examination import decode
from numaudit.memorymanager.checkpoint.file import Kind
from numaudit.memorymanager.restart import outlook as restart
from numaudit.memorymanager.restart.outlook import StartingKubelet

_YOUNG = 1.0
"""Seconds since its writing in which the next write may still come."""
_PAUSE = 0.05
_TRIES = 10
_BETWEEN_WRITES = frozenset({"entries-do-not-add-up", "machine-state-missing", "cpu-state-refused"})


def read(kind: Kind, path: Path) -> bytes | None:
    """As `state_files.read`; read again for up to half a second while it was just written and does not add up."""
    data = state_files.read(path)
    for _ in range(_TRIES):
        if data is None or not _is_young(path) or _adds_up(kind, data):
            break
        sleep(_PAUSE)
        data = state_files.read(path)
    return data


def _is_young(path: Path) -> bool:
    try:
        return abs(time() - path.stat().st_mtime) < _YOUNG
    except OSError:  # it has gone meanwhile: nothing more will come
        return False


def _adds_up(kind: Kind, data: bytes) -> bool:
    """Or is wrong in a way that no write of the kubelet leaves for a moment."""
    content = decode(kind, data).content
    if content is None:
        return True
    return _BETWEEN_WRITES.isdisjoint(one.name for one in restart.examine(*content, None, StartingKubelet()).findings)
