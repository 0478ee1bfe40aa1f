"""The outcome of a check that failed, and of all: which questions they answer, the links of the chain of evidence, and
whether all sources work, some, or none.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from numaudit.api.document import Doctor, DoctorQuestion
from numaudit.checkpoints.formats.file import CLAIMS, CPU, DEVICES, MEMORY
from numaudit.errors import InputError, Unavailable, nearest
from numaudit.kernel.host import explain
from numaudit.pmu.choose import CannotCount
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.snapshot import Check

HOST = "host"
"""The group of what answers none of the questions, but is needed for all."""
_QUESTIONS = {
    "promised": "where memory was promised",
    "allowed": "where memory may be",
    "resident": "where memory is",
    "accessed": "from where memory is used",
}
"""Link of the chain -> its question."""
_DECIDING = {"promised": MEMORY, "allowed": "cpuset", "resident": "residency"}
"""The check without which a question has no answer; accesses have several sources, of which one is enough."""
_LINKS = {
    **dict.fromkeys(("kubelet", "podresources", MEMORY, CPU, DEVICES, CLAIMS), "promised"),
    "cpuset": "allowed",
    **dict.fromkeys(("residency", "huge pages", "numa_maps", "memory tiers"), "resident"),
    **dict.fromkeys(("numa balancing", "calibration"), "accessed"),
}
_NOT_MEASURED = "access expected"
"""Says from where memory would be used, whatever happens."""
_PREFIXES = {"bpf ": "accessed", "access ": "accessed", "kubelet /": "promised"}


def link_of(check: str) -> str:
    """The link of the chain that a check is about; HOST = it is about all of them."""
    found = (link for prefix, link in _PREFIXES.items() if check.startswith(prefix))
    return next(found, _LINKS.get(check, HOST))


def doctor(checks: Sequence[Check]) -> Doctor:
    """The checks, and which questions they can answer."""
    return Doctor(tuple(checks), questions(checks))


def questions(checks: Sequence[Check]) -> tuple[DoctorQuestion, ...]:
    """The questions, and which checks are about each."""
    working = {one.name for one in checks if one.works}
    has_source = any(name.startswith("access ") for name in working - {_NOT_MEASURED})
    return tuple(
        DoctorQuestion(
            link,
            question,
            has_source if link == "accessed" else _DECIDING[link] in working,
            [one.name for one in checks if link_of(one.name) == link],
        )
        for link, question in _QUESTIONS.items()
    )


NOT_HERE = ("one-node", "no-pmu", "cpu-unknown", "mixed-cpus", "no-events", Reason.NOT_LIVE)
"""Reasons of a source that such a machine, or a capture, does not have: nothing is to be mended."""

Outcome = Literal["all", "some", "none"]

_LISTED = "; `numaudit doctor` lists them"
_WITHOUT_WHICH_NOTHING = ("numa nodes", "cgroup")
_MEASURING = ("residency", "numa_maps", "bpf ", "access ")
"""Prefixes of the sources that measure memory or its use."""


def outcome(checks: Sequence[Check]) -> Outcome:
    """Sum up which sources work here. A reduced source works, and none that this host cannot have is missed.

    Of accesses one source is enough, so no other is missed beside it.
    """
    if any(one.name in _WITHOUT_WHICH_NOTHING and one.state == "missing" for one in checks):
        return "none"
    if all(not one.works for one in checks if one.name.startswith(_MEASURING)):
        return "none"
    spare = {name for one in questions(checks) if one.link == "accessed" and one.answered for name in one.checks}
    return "some" if any(one.state == "missing" for one in checks if one.name not in spare) else "all"


def required(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """The names in `A,B`, as the doctor prints them. Raises InputError for one that no check has."""
    names = tuple(" ".join(name.split()) for name in text.split(","))
    for name in names:
        if name not in known:
            raise InputError(f"--require: there is no source {name!r}{nearest(name, known, _LISTED)}")
    return names


def lacking(checks: Sequence[Check], names: Sequence[str]) -> tuple[str, ...]:
    """Those of the required sources that do not work; a checkpoint that is not there has no check."""
    working = {one.name for one in checks if one.works}
    return tuple(name for name in names if name not in working)


def failed(name: str, error: Exception) -> Check:
    """The check of a measurement that raised this error."""
    if isinstance(error, ProbeRefusal):
        return _without(name, error.text, error.hint, error.reason.value)
    if isinstance(error, CannotCount):
        return _without(name, error.text, error.hint, error.word)
    return Check(name, "missing", explain(error), reason=_word(error))


def _without(name: str, text: str, hint: str | None, reason: str) -> Check:
    return Check(name, "n/a" if reason in NOT_HERE else "missing", text, hint, reason)


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
