"""Does the hint-fault probe count at all? The kernel's own count of the whole machine answers that.

A program that is loaded and attached may still never run, and no samples would be reported as no accesses.
"""

from __future__ import annotations

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.probes.hint_faults import HintFaultCounts

LEAST_UNSEEN = 1000
"""This many of the kernel's samples without one of the probe's are no coincidence."""


class SanityCheck(Struct):
    """Remembers from tick to tick what the kernel counted while the probe counted nothing."""

    _kernel: int | None = None
    _read: HintFaultCounts | None = None
    _unseen: int = 0

    def compare(self, kernel: int | None, read: HintFaultCounts | None) -> None:
        """One tick: the kernel's count since boot, and what the probe read. None = not known, or not all is counted.

        Raises Unavailable, at each tick until the probe counts again.
        """
        before, self._kernel = self._kernel, kernel
        earlier, self._read = self._read, read
        if kernel is None or before is None or read is None or earlier is None or _count(read.since(earlier)):
            self._unseen = 0
            return
        self._unseen += kernel - before
        if self._unseen >= LEAST_UNSEEN:
            raise Unavailable(
                f"the probe counts nothing: the kernel took {self._unseen} samples since it last counted one; "
                "restart numaudit, and report this with the output of `numaudit doctor` if it persists"
            )


def _count(added: HintFaultCounts) -> int:
    """More than 0 if the program was run at all."""
    return added.events + added.lost.get("busy", 0) + added.forgotten
