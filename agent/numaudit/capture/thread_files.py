"""Threads of the processes that a capture keeps: what `report NAME --processes` reads of each.

A process with one thread has all of it in its own files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic

from msgspec import Struct

from numaudit.kernel import files, tasks
from numaudit.kernel.host import Host, read_bytes
from numaudit.kernel.memory import numa_maps

MOST_OF_A_PROCESS = 4096
MOST = 50_000
_POLICY_SECONDS = 0.1
"""Time for the memory policies of one process: each may walk the pages of a large mapping."""
_FILES = ("stat", "status")
_POLICY = "numa_maps"


class ThreadFiles(Struct):
    """Copies them; none of a thread that ends meanwhile."""

    host: Host
    keep: Callable[[Path, bytes], None]
    miss: Callable[[Path, str], None]
    """Takes a file or folder of which something is missing, and why."""
    most: int = MOST
    """Threads of all processes together."""
    clock: Callable[[], float] = monotonic
    counters_only: bool = False
    """Is only `stat` asked for?"""

    def copy(self) -> None:
        for process in files.glob(self.host.proc, "[0-9]*"):
            try:
                pid = int(process.name)
                ids = tasks.thread_ids(self.host, pid)
            except (OSError, ValueError):  # it has ended, or is a capture's without threads
                continue
            if len(ids) > 1:
                kept = ids[: min(MOST_OF_A_PROCESS, self.most)]
                self.most -= len(kept)
                self._copy_of_process(pid, kept)
                if len(kept) < len(ids):
                    self.miss(process / "task", f"{len(ids) - len(kept)} of {len(ids)} threads were left out")

    def _copy_of_process(self, pid: int, ids: list[int]) -> None:
        folder = self.host.proc / f"{pid}/task"
        for thread in ids:
            for name in _FILES[: 1 if self.counters_only else None]:
                path = folder / f"{thread}/{name}"
                try:
                    content = read_bytes(path)
                except (FileNotFoundError, ProcessLookupError):
                    continue
                except OSError as error:
                    self.miss(path, error.strerror or str(error))
                else:
                    self.keep(path, content)
        if self.counters_only:
            return
        until = self.clock() + _POLICY_SECONDS
        for position, thread in enumerate(ids):
            path = folder / f"{thread}/{_POLICY}"
            if self.clock() > until:
                self.miss(path, f"the time for memory policies ran out, {len(ids) - position} threads have none")
                return
            try:
                content = numa_maps.read_telling_lines(self.host, pid, thread)
            except (FileNotFoundError, ProcessLookupError):
                continue
            except (OSError, ValueError) as error:  # so it is for all of them
                self.miss(path, getattr(error, "strerror", None) or str(error))
                return
            self.keep(path, content)
