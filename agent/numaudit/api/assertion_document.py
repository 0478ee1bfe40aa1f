"""The result of `numaudit assert`, as a document."""

from __future__ import annotations

from numaudit.encoding.value import Value
from numaudit.report.gates.gate import GateCheck, GateState


class Assertion(Value, frozen=True):
    """Containers, compared with limits."""

    state: GateState
    """A failure comes before what is inconclusive, and that before a pass."""
    checks: tuple[GateCheck, ...]
    """One for each container and limit."""
