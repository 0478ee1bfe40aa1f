"""Label values and numbers of the rows about the kubelet's checkpoints and its next start."""

from __future__ import annotations

from numaudit.checkpoints.start.findings import CONFIGURATION_REFUSED, MAKES_A_RESTART_UNSAFE, StateFinding
from numaudit.exporters.facts import ExportedTick
from numaudit.exporters.metric import Values, word
from numaudit.report.kubelet import CheckpointReport

CONFIGURATION = "configuration"
"""In place of a file's name: what the kubelet refuses is its configuration, whatever is in its checkpoints."""
_OF_A_REFUSED_CONFIGURATION = (CONFIGURATION_REFUSED, "policy-changed", "reservation-changed")
"""Findings that compare a file with the configuration: of no use while that is refused."""


def restart_safe(tick: ExportedTick) -> Values:
    """Not after a reboot: what that does to a node's memory is unknown, so it would be 0 on every healthy node."""
    refused, files = _checkpoints(tick)
    if refused:
        yield (CONFIGURATION,), 0
    for file, findings in files:
        if refused:
            if any(one.stops in MAKES_A_RESTART_UNSAFE for one in findings):
                yield (file.file,), 0
        elif file.starts_now != "unknown":
            yield (file.file,), int(file.starts_now == "yes")


def valid(tick: ExportedTick) -> Values:
    refused, files = _checkpoints(tick)
    for file, findings in files:
        if file.valid is not None:
            is_right = refused and not any(one.severity == "error" for one in findings)
            yield (file.file,), int(file.valid or is_right)


def problems(tick: ExportedTick) -> Values:
    """Errors, and whatever else makes a restart unsafe."""
    refused, files = _checkpoints(tick)
    if refused:
        yield (CONFIGURATION, CONFIGURATION_REFUSED), 1
    for file, findings in files:
        names = dict.fromkeys(
            one.name for one in findings if one.severity == "error" or one.stops in MAKES_A_RESTART_UNSAFE
        )
        for name in names or filter(None, (file.problem,)):
            yield (file.file, name), 1


def restart_starts(tick: ExportedTick) -> Values:
    """The answer of `numaudit forecast`, of which `restart_safe` is the part of each file."""
    for one in tick.report.restarts:
        yield (str(one.reboot).lower(), word(one.starts)), 1


def refused_pods(tick: ExportedTick) -> Values:
    """Absent for a restart that the kubelet would not survive: what becomes of its pods is then another question."""
    for one in tick.report.restarts:
        if one.refused_pods is not None:
            yield (str(one.reboot).lower(),), one.refused_pods


def _checkpoints(tick: ExportedTick) -> tuple[bool, list[tuple[CheckpointReport, list[StateFinding]]]]:
    """Return True when the kubelet refuses its configuration, and each checkpoint with the findings in the file itself.

    A refused configuration is the first finding of each of them.
    """
    files = tick.report.checkpoints
    refused = any(one.name == CONFIGURATION_REFUSED for file in files for one in file.findings)
    left_out = _OF_A_REFUSED_CONFIGURATION if refused else ()
    return refused, [(file, [one for one in file.findings if one.name not in left_out]) for file in files]
