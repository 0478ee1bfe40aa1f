"""/proc/PID/task: the threads of a process, each with its CPUs, its memory policy and its CPU time.

Source: proc_pid_task(5). Everybody may read `stat` and `status`; numa_maps asks for CAP_PERFMON since Linux 6.15, and
before for CAP_SYS_PTRACE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from numaudit.errors import ParseError
from numaudit.kernel import files, process_stat, process_status
from numaudit.kernel.host import Host, read_bytes
from numaudit.kernel.process_stat import Task
from numaudit.kernel.process_status import Placing


class Thread(NamedTuple):
    """One thread."""

    id: int
    task: Task
    placing: Placing


def ids(host: Host, pid: int) -> list[int]:
    """Of its threads, the main thread's first. Raises OSError when the process has ended."""
    found = [int(one) for one in files.names(f"{host.proc}/{pid}/task") if one.isascii() and one.isdigit()]
    return sorted(found, key=lambda one: (one != pid, one))


def read_main(host: Host, pid: int) -> Thread:
    """The main thread; in a capture without threads, with the CPU time of all. Raises OSError when the process has
    ended, ParseError."""
    try:
        return _read(f"{host.proc}/{pid}/task/{pid}", pid)
    except FileNotFoundError:
        return _read(f"{host.proc}/{pid}", pid)


def read_main_task(host: Host, pid: int) -> Task:
    """Only the `stat` of a process. Raises OSError when it has ended, ParseError."""
    return _task(f"{host.proc}/{pid}/stat")


def read(host: Host, pid: int, threads: list[int]) -> Iterator[Thread]:
    """These threads; those that have ended are left out. Raises ParseError."""
    for one in threads:
        try:
            yield _read(f"{host.proc}/{pid}/task/{one}", one)
        except (FileNotFoundError, ProcessLookupError):
            continue


def read_task(host: Host, pid: int, thread: int) -> Task:
    """Only the `stat` of a thread. Raises OSError when it has ended, ParseError."""
    return _task(f"{host.proc}/{pid}/task/{thread}/stat")


def _read(folder: str, thread: int) -> Thread:
    task = _task(f"{folder}/stat")
    file = f"{folder}/status"
    try:
        return Thread(thread, task, process_status.parse_placing(read_bytes(file)))
    except ParseError as error:
        raise ParseError(f"{file}: {error}") from None


def _task(file: str) -> Task:
    try:
        return process_stat.parse_task(read_bytes(file))
    except (IndexError, ValueError):
        raise ParseError(f"{file} is no line of /proc/PID/stat") from None
