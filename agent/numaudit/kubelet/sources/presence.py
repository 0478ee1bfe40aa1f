"""Detection of a kubelet: its process, or what it left. Hosts without one import nothing else of this package."""

from __future__ import annotations

from numaudit.errors import Absent
from numaudit.kernel import files
from numaudit.kernel.host import Host, may_exist, read_bytes


def find(host: Host) -> int | None:
    """The process id of the kubelet, by its name. None = none is visible."""
    for folder in files.glob(host.proc, "[0-9]*"):
        if is_kubelet(host, int(folder.name)):
            return int(folder.name)
    return None


def is_kubelet(host: Host, pid: int) -> bool:
    """Has the process the kubelet's name?"""
    try:
        return read_bytes(host.proc / str(pid) / "comm").strip() == b"kubelet"
    except OSError:
        return False


def has_files(host: Host) -> bool:
    """Is there a kubelet's folder, or are there answers of one in a capture?"""
    return any(map(may_exist, (host.kubelet, host.answers)))


def require(host: Host) -> None:
    """Raises Absent where no kubelet is, was or can be asked."""
    if host.connection.url is None and not has_files(host) and find(host) is None:
        raise Absent(absence_reason(host))


def absence_reason(host: Host) -> str:
    """Text that names the missing parts."""
    return f"no kubelet: no process of that name is visible, and there is no {host.kubelet_root}"
