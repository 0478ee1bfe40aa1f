"""The rule about what the kernel does not show of the machine."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence


def _cpus_not_placed(evidence: TickEvidence) -> Iterator[RuleResult]:
    machine = evidence.snapshot.machine
    if machine.cpu_problem is not None:
        yield RuleResult(machine.cpu_problem, numa_nodes=machine.without_cpu_list or None)


RULES = (
    Rule(
        "cpus-not-placed",
        "warning",
        "No verdict that depends on these CPUs can be given. Compare /sys/devices/system/node/node*/cpulist with "
        "/sys/devices/system/cpu/online; in a captured tree, look for files that were cut short, and capture again.",
        _cpus_not_placed,
    ),
)
