"""The results of `numaudit selftest`, as a document."""

from __future__ import annotations

from typing import Literal

from numaudit.value import Value

CheckState = Literal["passed", "failed", "inconclusive", "not tried"]
"""inconclusive: it was tried, and a busy machine left too little to tell a pass from a failure."""


class SelfTestCheck(Value, frozen=True):
    """One thing that was checked with known work."""

    name: str
    """Name of the check."""
    state: CheckState
    """Result of the check."""
    expected: str
    """Expected result."""
    seen: str
    """For what was not tried or is inconclusive: why."""


class SelfTest(Value, frozen=True):
    """All checks, in the order they were made."""

    checks: tuple[SelfTestCheck, ...]
    """All checks, in the order they were made."""
