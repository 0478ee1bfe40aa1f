"""A check that failed, with the reason as a word and in full."""

from __future__ import annotations

from numaudit.errors import Unavailable
from numaudit.kernel.host import explain
from numaudit.pmu.choose import CannotCount
from numaudit.probes.reasons import ProbeRefusal
from numaudit.snapshot import Check


def failed(name: str, error: Exception) -> Check:
    """The check of a measurement that raised this error."""
    if isinstance(error, ProbeRefusal):
        return Check(name, "missing", error.text, error.hint, error.reason.value)
    if isinstance(error, CannotCount):
        return Check(name, "missing", error.text, error.hint, error.word)
    return Check(name, "missing", explain(error), reason=_word(error))


def _word(error: Exception) -> str:
    """One of a few, since metrics carry it."""
    match error:
        case Unavailable():
            return "unavailable"
        case PermissionError():
            return "no-permission"
        case FileNotFoundError() | NotADirectoryError():
            return "not-found"
        case OSError():
            return "not-readable"
        case _:
            return "not-understood"
