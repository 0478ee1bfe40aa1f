"""Detection of a kubelet: its process, or what it left. Hosts without one import nothing else of this package."""

from __future__ import annotations

from msgspec import Struct

from numaudit.containers.host_process import why_not_the_hosts
from numaudit.errors import Absent, ParseError
from numaudit.kernel import files, tasks
from numaudit.kernel.host import Host, may_exist, read_bytes
from numaudit.topology.quantity import plural

_MOST_NAMED = 3


class KubeletProcess(Struct, frozen=True):
    """The kubelet's process as far as it is known."""

    pid: int | None = None
    """None = none is known."""
    started: int | None = None
    """Clock ticks since boot; None = not known, as in a made-up tree."""
    rivals: tuple[int, ...] = ()
    """Several processes, each of which may be it."""
    doubt: str | None = None
    """Reason why processes of that name are not believed to be the kubelet."""

    @property
    def unseen(self) -> str:
        """Reason why there is none."""
        return self.doubt or "no kubelet process is visible"


def find(host: Host) -> KubeletProcess:
    """The process that is the kubelet. Its name is its own choice: only one of the host's own processes counts."""
    proven: list[int] = []
    doubts: list[str] = []
    folders = files.glob(host.proc, "[0-9]*")
    for pid in sorted(int(folder.name) for folder in folders if _is_called_kubelet(host, folder.name)):
        doubt = why_not_the_hosts(host, pid, host.connection.cgroup)
        if doubt is None:
            proven.append(pid)
        else:
            doubts.append(f"{pid} ({doubt})")
    if len(proven) == 1:
        return KubeletProcess(proven[0], _started(host, proven[0]))
    if proven:
        named = _some([str(pid) for pid in proven])
        doubt = (
            f"processes {named} are each called kubelet, so none is believed; stop all but one, or name the cgroup of "
            "the right one by kubelet.cgroup"
        )
        return KubeletProcess(rivals=tuple(proven), doubt=doubt)
    if doubts:
        return KubeletProcess(doubt=f"called kubelet but not believed to be it: process {_some(doubts)}")
    return KubeletProcess()


def is_there(host: Host, process: KubeletProcess) -> bool:
    """Does the process still run, and is it the same?"""
    if process.pid is None or not _is_called_kubelet(host, str(process.pid)):
        return False
    return _started(host, process.pid) == process.started


def has_files(host: Host) -> bool:
    """Is there a kubelet's folder, or are there answers of one in a capture?"""
    return any(map(may_exist, (host.kubelet, host.answers)))


def require(host: Host) -> None:
    """Raises Absent where no kubelet is, was or can be asked."""
    if host.connection.url is not None or has_files(host):
        return
    process = find(host)
    if process.pid is None:
        raise Absent(absence_reason(host, process))


def absence_reason(host: Host, process: KubeletProcess) -> str:
    """Text that names the missing parts."""
    seen = process.doubt or "no process of that name is visible"
    return f"no kubelet: {seen}, and there is no {host.kubelet_root}"


def _is_called_kubelet(host: Host, pid: str) -> bool:
    try:
        return read_bytes(f"{host.proc}/{pid}/comm").strip() == b"kubelet"
    except OSError:
        return False


def _started(host: Host, pid: int) -> int | None:
    try:
        return tasks.read_main_task(host, pid).started
    except (OSError, ParseError):
        return None


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {plural(more, 'other')}" if more > 0 else "")
