"""Rules about how a node is set up, what they look at, and their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct

from numaudit.containermanager.versions import KubernetesVersion, parse_version
from numaudit.encoding.go_syntax import GoSyntaxError, parse_bool
from numaudit.encoding.value import Value
from numaudit.errors import InputError, ParseError
from numaudit.evaluation.setup.facts import SetupFact
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import Intent
from numaudit.intent.pods import PodFacts
from numaudit.memorymanager.kubelet import NotModelled, read_kubelet
from numaudit.snapshot import ContainerId, Resident, Snapshot
from numaudit.snapshot.host_settings import HostSettings
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.quantity import plural

_Value = TypeVar("_Value")
Area = Literal["kubelet", "kernel", "firmware", "devices", "containers"]
AREAS: tuple[Area, ...] = ("kubelet", "kernel", "firmware", "devices", "containers")
Severity = Literal["error", "warning", "info"]
"""error: a promise breaks, or the kubelet does not start; warning: less is promised than people think; info: worth
knowing."""
SetupState = Literal["error", "warning", "info", "accepted", "not-judged", "pass"]
STATES: tuple[SetupState, ...] = ("error", "warning", "info", "accepted", "not-judged", "pass")
"""The worst first."""
Need = Literal["kubelet", "promises", "nodes"]
_UNMET: Mapping[Need, str] = {
    "kubelet": "no kubelet was found here",
    "promises": "nothing here promises memory on NUMA nodes",
    "nodes": "one NUMA node has memory",
}


class CannotJudge(Exception):
    """What a rule needs is not known; the message says what."""


class Fault(NamedTuple):
    """One place where a rule does not hold."""

    message: str
    numa_nodes: NodeSet | None = None
    severity: Severity | None = None
    """None = the rule's."""
    remedy: str | None = None
    """None = the rule's."""


class SetupEvidence(Struct, frozen=True, dict=True):
    """All that rules look at."""

    snapshot: Snapshot

    @cached_property
    def settings(self) -> HostSettings:
        return self.snapshot.settings or HostSettings()

    @property
    def machine(self) -> Machine:
        return self.snapshot.machine

    @cached_property
    def intent(self) -> Intent:
        """Empty where there is no kubelet."""
        return self.snapshot.intent or Intent()

    @property
    def config(self) -> KubeletConfig:
        return self.intent.config

    @property
    def document(self) -> Mapping[str, object]:
        """The KubeletConfiguration in force; only fields that were set. Raises CannotJudge."""
        if self.config.document is None:
            raise CannotJudge("the kubelet's configuration is not known")
        return self.config.document

    @cached_property
    def version(self) -> KubernetesVersion:
        """Raises CannotJudge."""
        try:
            return parse_version(self.config.version or "")
        except InputError:
            raise CannotJudge("the kubelet's version is not known") from None

    @cached_property
    def memory_policy(self) -> str:
        return self._policy("memory_manager_policy", "Memory Manager")

    @cached_property
    def cpu_policy(self) -> str:
        return self._policy("cpu_manager_policy", "CPU Manager")

    @cached_property
    def topology_policy(self) -> str:
        return self._policy("topology_manager_policy", "Topology Manager")

    def _policy(self, field: str, manager: str) -> str:
        found: str | None = getattr(self.config, field)
        if found is None:
            raise CannotJudge(f"the policy of the kubelet's {manager} is not known")
        return found

    @property
    def is_in_force(self) -> bool:
        """Does a kubelet that runs show this configuration, with all its flags?"""
        return "configz" in self.config.origins.values()

    @cached_property
    def start_problem(self) -> InputError | None:
        """Why a kubelet refuses its configuration on this machine, or counts on with a wrong number; None = it does
        not. Raises CannotJudge.
        """
        version = self.version
        try:
            read_kubelet(self.document, self.machine, kubernetes_version=f"{version[0]}.{version[1]}")
        except NotModelled as error:
            raise CannotJudge(str(error)) from None
        except InputError as error:
            return error
        return None

    @staticmethod
    def is_on(options: Mapping[str, str] | None, name: str) -> bool:
        """Is an option of a policy set, in one of Go's spellings of true?"""
        try:
            return parse_bool((options or {}).get(name, "false"))
        except GoSyntaxError:  # such a kubelet does not start, which another rule says
            return False

    @cached_property
    def reserved(self) -> Mapping[int, int]:
        """Bytes of memory that the kubelet keeps for the system, by node of its map. Raises CannotJudge."""
        if not self.intent.machine:
            raise CannotJudge("the Memory Manager's map of the nodes is not known")
        tables = ((id_, node.memory_map.get("memory")) for id_, node in self.intent.machine.items())
        return {id_: table.system_reserved for id_, table in tables if table is not None}

    @cached_property
    def pods(self) -> tuple[PodFacts, ...]:
        """Those that live. Raises CannotJudge."""
        if self.intent.pods is None:
            raise CannotJudge("the kubelet's pods are not known")
        return tuple(one for one in self.intent.pods.values() if not one.has_ended)

    @property
    def residency(self) -> Mapping[ContainerId, Resident]:
        """The memory of each container by node. Raises CannotJudge."""
        if not self.snapshot.residency:
            raise CannotJudge("the memory of no container could be read")
        return self.snapshot.residency

    def known(self, value: _Value | None, field: str) -> _Value:
        """A field of the settings. Raises CannotJudge with the reason why it is not known, or is not there."""
        if value is None:
            raise CannotJudge(self.settings.unread.get(field) or f"{_IN_WORDS.get(field, field)} is not shown here")
        return value

    @property
    def reserved_cpus(self) -> CpuSet:
        """reservedSystemCPUs; none where it is not set. Raises CannotJudge."""
        try:
            return CpuSet.parse(str(self.document.get("reservedSystemCPUs") or ""))
        except ParseError:
            raise CannotJudge("reservedSystemCPUs is not a list of CPUs") from None

    def sysctl(self, name: str) -> int:
        """Raises CannotJudge."""
        return self.known(self.settings.sysctl(name), "sysctls")

    def lacks(self, need: Need) -> bool:
        """Is it not here?"""
        if need == "nodes":
            return len(self.machine.with_memory) < 2
        if need == "kubelet":
            return self.snapshot.intent is None or self.intent.promised_by != "kubelet"
        return not self.intent.machine and not any(one.promise.memory_nodes for one in self.intent.containers)


_IN_WORDS = {
    "kernel": "the kernel's release",
    "command_line": "the kernel's command line",
    "sysctls": "the setting",
    "zones": "/proc/zoneinfo",
    "huge_pages": "the mode of transparent huge pages",
    "acpi_tables": "the list of ACPI tables",
    "is_guest": "whether this is a virtual machine",
    "devices": "the list of PCI devices",
    "isolated_cpus": "the list of isolated CPUs",
    "present_cpus": "the list of CPUs that are present",
}


class SetupRule(Struct, frozen=True):
    """All that holds for one rule. docs/setup.md is made of these."""

    id: str
    area: Area
    severity: Severity
    why: str
    """What it does to promised memory, in one sentence."""
    remedy: str
    """A command in it is between backquotes."""
    source: str
    """Where it can be read."""
    check: Callable[[SetupEvidence], Iterable[Fault]]
    """May raise CannotJudge."""
    needs: tuple[Need, ...] = ()

    def judge(self, evidence: SetupEvidence) -> SetupResult:
        """The result of one rule; the worst severity of its faults, and all of them in words."""
        unmet = next((_UNMET[need] for need in self.needs if evidence.lacks(need)), None)
        if unmet is not None:
            return self._result("not-judged", (unmet,))
        faults: list[Fault] = []
        try:
            faults.extend(self.check(evidence))
        except CannotJudge as error:
            if not faults:  # what was found before is wrong whatever the rest is
                return self._result("not-judged", (str(error),))
        if not faults:
            return self._result("pass", ())
        state = min((one.severity or self.severity for one in faults), key=STATES.index)
        nodes = [one.numa_nodes for one in faults if one.numa_nodes]
        remedies = dict.fromkeys(one.remedy or self.remedy for one in faults)
        return self._result(
            state,
            tuple(one.message for one in faults),
            " ".join(remedies),
            NodeSet.from_ids(node for of in nodes for node in of) if nodes else None,
        )

    def _result(
        self, state: SetupState, messages: tuple[str, ...], remedy: str | None = None, nodes: NodeSet | None = None
    ) -> SetupResult:
        return SetupResult(self.id, self.area, state, messages, self.why, remedy, self.source, nodes)


class SetupResult(Value, frozen=True):
    """The result of one rule about how this node is set up."""

    id: str
    """Name of the rule; docs/setup.md explains it."""
    area: str
    """kubelet, kernel, firmware, devices or containers."""
    state: SetupState
    """error: a promise breaks, or the kubelet does not start. warning: less is promised than it seems. info: worth
    knowing. accepted: one of these, and somebody accepted it. not-judged: what the rule needs is not known, or not
    here."""
    messages: tuple[str, ...]
    """Each place where the rule does not hold; the reason why it was not judged; empty = it holds."""
    why: str
    """What it does to promised memory."""
    remedy: str | None
    """What to do, commands between backquotes; null = nothing."""
    source: str
    """Where this can be read."""
    numa_nodes: NodeSet | None
    """The nodes that it is about; null = of none in particular."""
    accepted: str | None = None
    """Why somebody accepted it; null = nobody did."""

    @property
    def is_fault(self) -> bool:
        """Does the rule not hold, and has nobody accepted that?"""
        return self.state in ("error", "warning", "info")


class Setup(Value, frozen=True):
    """How this node is set up."""

    rules: tuple[SetupResult, ...]
    """By area, and within one the worst first."""
    facts: tuple[SetupFact, ...] = ()
    """Settings and properties that should be the same on all nodes of a pool."""

    @property
    def in_words(self) -> str:
        """2 errors, 3 warnings, 1 info: 20 of 38 rules hold, 12 not judged."""
        counts = Counter(one.state for one in self.rules)
        wrong = [plural(counts[state], state) for state in STATES[:3] if counts[state]]
        parts = [f"{counts['pass']} of {plural(len(self.rules), 'rule')} hold"]
        parts += [f"{counts['accepted']} accepted"] if counts["accepted"] else []
        parts += [f"{counts['not-judged']} not judged"] if counts["not-judged"] else []
        return f"{', '.join(wrong) or 'No fault was found'}: {', '.join(parts)}."
