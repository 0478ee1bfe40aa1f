"""What `numaudit selftest` found, as a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SelfTestCheck:
    """One thing that was checked with known work."""

    name: str
    state: Literal["passed", "failed", "not tried"]
    expected: str
    seen: str
    """For what was not tried: why not."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """All checks, in the order they were made."""

    checks: tuple[SelfTestCheck, ...]
