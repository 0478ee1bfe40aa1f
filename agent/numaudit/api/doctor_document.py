"""The answers of `numaudit doctor`, as documents."""

from __future__ import annotations

from typing import Literal

from numaudit.encoding.value import Value
from numaudit.snapshot import Check


class DoctorQuestion(Value, frozen=True):
    """One link of the chain of evidence."""

    link: str
    """promised, allowed, resident or accessed."""
    question: str
    """The question in words."""
    answered: bool
    """Can it be answered here?"""
    checks: list[str]
    """Names of the checks that are about it."""


class Doctor(Value, frozen=True):
    """Sources of figures on this host."""

    checks: tuple[Check, ...]
    """Each thing that can be measured, or not."""
    questions: tuple[DoctorQuestion, ...]
    """Questions that they answer, in the order of the chain of evidence."""


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
