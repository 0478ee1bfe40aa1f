"""A known amount of work in a process of its own, to see whether a measurement notices it."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from numaudit.errors import NumauditError, Unavailable

_PROGRAM = Path(__file__).with_name("reference_workload_child.py")
_PATIENCE = 30.0
"""Seconds for one order to be followed; an emulated machine needs a few."""


class ReferenceWorkload(Struct, frozen=True):
    """A running process that holds `size` bytes and follows orders."""

    process: subprocess.Popen[str]
    size: int

    def order(self, word: str) -> None:
        """`touch`, `refill` or `rest`; returns once it is followed. Raises Unavailable when the process has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        self.expect(word)

    def expect(self, word: str) -> None:
        """Wait for the process to say a word."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], _PATIENCE)[0]:
            raise NumauditError(f"the process that runs the known workload has not answered for {_PATIENCE:g} s")
        if self.process.stdout.readline().strip() != word:
            raise self._ended()

    def _ended(self) -> Unavailable:
        code = self.process.wait(_PATIENCE)
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return Unavailable(f"the process that does known work ended {how}: is there memory enough where it may use it?")


@contextmanager
def reference_workload(size: int, threads: int, cgroup: Path | None = None) -> Iterator[ReferenceWorkload]:
    """Start it, optionally in a cgroup's folder; it ends with the block. Raises OSError.

    A shell joins the cgroup while it is small and then becomes the process, so that every page of it is given there.
    """
    program = [sys.executable, "-I", "-S", str(_PROGRAM), str(size), str(threads)]
    joining = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(cgroup / "cgroup.procs")] if cgroup else []
    process = subprocess.Popen([*joining, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    work = ReferenceWorkload(process, size)
    try:
        work.expect("ready")
        yield work
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # an order that the ended process has not read
                pipe.close()
