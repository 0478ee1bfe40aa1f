"""The checks of the doctor by the question that they answer: the links of the chain of evidence. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from numaudit.api.doctor_document import Doctor, DoctorQuestion
from numaudit.checkpoints.formats.file import CLAIMS, CPU, DEVICES, MEMORY
from numaudit.doctor.kubelet_answers import NAMES as ANSWERS
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
    **dict.fromkeys(("kubelet", MEMORY, CPU, DEVICES, CLAIMS, *ANSWERS), "promised"),
    "cpuset": "allowed",
    **dict.fromkeys(("residency", "huge pages", "numa_maps", "memory tiers"), "resident"),
    **dict.fromkeys(("numa balancing", "calibration"), "accessed"),
}
_NOT_MEASURED = "access expected"
"""Says from where memory would be used, whatever happens."""
_PREFIXES = ("bpf ", "access ")


def link_of(check: str) -> str:
    """The link of the chain that a check is about; HOST = it is about all of them."""
    return "accessed" if check.startswith(_PREFIXES) else _LINKS.get(check, HOST)


def doctor(checks: Sequence[Check]) -> Doctor:
    """The checks, and which questions they can answer."""
    return Doctor(tuple(checks), questions(checks))


def questions(checks: Sequence[Check]) -> tuple[DoctorQuestion, ...]:
    """The questions, and which checks are about each."""
    working = {one.name for one in checks if one.state != "missing"}
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
