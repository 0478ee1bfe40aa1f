"""What `numaudit selftest` found, as a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CheckState = Literal["passed", "failed", "inconclusive", "not tried"]
"""inconclusive: it was tried, and a busy machine left too little to tell a pass from a failure."""


@dataclass(frozen=True, slots=True)
class SelfTestCheck:
    """One thing that was checked with known work."""

    name: str
    state: CheckState
    expected: str
    seen: str
    """For what was not tried or is inconclusive: why."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """All checks, in the order they were made."""

    checks: tuple[SelfTestCheck, ...]
