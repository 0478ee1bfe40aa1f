"""How a node is set up: rules, each with what it finds now. They judge settings, where findings judge what happens."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from numaudit.errors import InputError, brief, nearest
from numaudit.evaluation.setup import containers, devices, firmware, kernel, kubelet, pages, reservations
from numaudit.evaluation.setup.rule import AREAS, STATES, SetupEvidence, SetupResult, SetupRule, SetupState
from numaudit.snapshot import Snapshot

__all__ = [
    "AREAS",
    "RULES",
    "STATES",
    "SetupResult",
    "SetupRule",
    "SetupState",
    "check_id",
    "examine",
    "skipped_rules",
]

_MODULES = (reservations, kubelet, kernel, pages, firmware, devices, containers)
RULES: tuple[SetupRule, ...] = tuple(
    sorted(
        (rule for module in _MODULES for rule in module.RULES),
        key=lambda rule: (AREAS.index(rule.area), STATES.index(rule.severity)),
    )
)
"""By area, and within one the worst first."""


_NONE: Mapping[str, str] = {}


def skipped_rules(text: str) -> frozenset[str]:
    """The ids in ID,ID. Raises InputError for one that no rule has."""
    found = frozenset(filter(None, (part.strip() for part in text.split(","))))
    for one in sorted(found):
        check_id(one)
    return found


def check_id(id_: str) -> str:
    """Raises InputError where no rule has this id."""
    names = [rule.id for rule in RULES]
    if id_ not in names:
        raise InputError(f"there is no rule {brief(id_)!r}{nearest(id_, names)}; `numaudit setup --all` lists them")
    return id_


def examine(snapshot: Snapshot, accepted: Mapping[str, str] = _NONE) -> tuple[SetupResult, ...]:
    """The result of each rule, in their order. `accepted`: id -> why what the rule finds is fine here."""
    evidence = SetupEvidence(snapshot)
    results = (rule.judge(evidence) for rule in RULES)
    return tuple(
        replace(one, state="accepted", accepted=accepted[one.id]) if one.id in accepted and one.is_fault else one
        for one in results
    )
