"""The answer of `numaudit doctor`, as a document."""

from __future__ import annotations

from numaudit.api.selftest_document import SelfTest
from numaudit.pmu.calibration import Calibration
from numaudit.snapshot import Check
from numaudit.value import Value


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
    self_test: SelfTest | None = None
    """Results of the self-test; null = it was not asked for (`--selftest`)."""
    calibration: Calibration | None = None
    """Speed of this machine's memory; null = it was not measured now (`--calibrate`)."""
