"""Summary of the checks: all sources work, some, or none. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from numaudit.doctor.questions import questions
from numaudit.errors import InputError, nearest
from numaudit.snapshot import Check

NO_KUBERNETES = "normal on a host without Kubernetes"
"""The hint of a check that misses nothing."""

NOT_HERE = ("one-node", "no-pmu", "cpu-unknown", "mixed-cpus", "no-events", "no-hardware", "not-read")
"""Reasons of a source that the machine's hardware does not have, or that numaudit does not read: nothing is to be
mended on this host."""

Outcome = Literal["all", "some", "none"]

_LISTED = "; `numaudit doctor` lists them"
_WITHOUT_WHICH_NOTHING = ("numa nodes", "cgroup")
_MEASURING = ("residency", "numa_maps", "bpf ", "access ")
"""Prefixes of the sources that measure memory or its use."""


def outcome(checks: Sequence[Check]) -> Outcome:
    """Sum up which sources work here. A reduced source works.

    Of accesses one source is enough, so no other is missed beside it.
    """
    if any(one.name in _WITHOUT_WHICH_NOTHING and one.state == "missing" for one in checks):
        return "none"
    if all(one.state == "missing" for one in checks if one.name.startswith(_MEASURING)):
        return "none"
    spare = {name for one in questions(checks) if one.link == "accessed" and one.answered for name in one.checks}
    return "some" if any(_is_failing(one) for one in checks if one.name not in spare) else "all"


def required(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """The names in `A,B`, as the doctor prints them. Raises InputError for one that no check has."""
    names = tuple(" ".join(name.split()) for name in text.split(","))
    for name in names:
        if name not in known:
            raise InputError(f"--require: there is no source {name!r}{nearest(name, known, _LISTED)}")
    return names


def lacking(checks: Sequence[Check], names: Sequence[str]) -> tuple[str, ...]:
    """Those of the required sources that do not work; a checkpoint that is not there has no check."""
    working = {one.name for one in checks if one.state != "missing"}
    return tuple(name for name in names if name not in working)


def _is_failing(check: Check) -> bool:
    return check.state == "missing" and check.hint != NO_KUBERNETES and check.reason not in NOT_HERE
