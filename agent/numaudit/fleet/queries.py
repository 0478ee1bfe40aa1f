"""The queries, in PromQL that Prometheus and VictoriaMetrics both take. Pure.

The engine adds up and picks: what comes back grows with the nodes, never with the containers.
"""

from __future__ import annotations

from collections.abc import Sequence

from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.fleet.scope import Scope, labels, matched

WINDOW = 3600
"""Seconds: how far back refusals count, and an agent that is gone now is remembered."""
_HOUR = f"{WINDOW}s"
OLD_SECONDS = 300
"""A source of the kubelet is asked at least once a minute."""
_NAMES = 25
"""In one query: VictoriaMetrics takes 16 KiB at most, and the path of a cgroup is long."""
ROOM_SOURCES = ("memory-checkpoint", "cpu-checkpoint", "pods", "kubelet-configuration")
"""Sources of the kubelet on which the room of a node rests."""
CONTAINER = ("namespace", "pod", "container")

DETAILS = (
    "container_judged_bytes|container_aligned_bytes|container_remote_ratio|container_intended_node|container_finding"
)
"""Of the worst containers."""
MAP = (
    "memory_manager_bytes|memory_manager_total_bytes|memory_manager_system_reserved_bytes|"
    "memory_manager_allocatable_bytes|memory_manager_assignments|memory_manager_group|node_policy_info|"
    "memory_manager_pool_bytes|memory_manager_pool_reserved_bytes|memory_manager_unclaimed_bytes|"
    "cpu_manager_cpus|node_unrequested_cpus|node_unrequested_bytes|node_unrequested_pods"
)
"""Metrics from which a node's memory map, CPUs, requests and policies are rebuilt."""


def agents(scope: Scope) -> str:
    """Those that report now, with all labels: two series of one agent differ in some."""
    return scope.of("build_info")


def known_agents(scope: Scope) -> str:
    """Those that have reported lately."""
    return f"group by {labels(*scope.by)} (last_over_time({scope.of('build_info')}[{_HOUR}]))"


def targets(scope: Scope) -> str:
    """Scraped targets with such an agent: 1 when the last scrape succeeded, else 0."""
    known = f"group by (instance, job) (last_over_time({scope.of('build_info')}[{_HOUR}]))"
    return f"min by {labels(*scope.by)} (up{scope.any()} and on (instance, job) {known})"


def ages(scope: Scope) -> str:
    """Seconds since what an agent reports was measured, by its own word and the sample's age."""
    age = scope.of("snapshot_age_seconds")
    return f"max by {labels(*scope.by)} ({age} + (time() - timestamp({age})))"


def verdicts(scope: Scope) -> str:
    """Containers by agent and verdict."""
    return f"count by {labels(*scope.by, 'verdict')} ({scope.of_containers('container_verdict')})"


def misplaced(scope: Scope) -> str:
    """Judged bytes on nodes that were not promised, by agent."""
    return f"sum by {labels(*scope.by)} ({scope.of_containers('container_misplaced_bytes')})"


def worst(scope: Scope, top: int) -> str:
    """Of each verdict that is a misalignment the containers with the most misplaced bytes."""
    judged = scope.of_containers("container_verdict", matched("verdict", MISALIGNED))
    each = labels(*scope.by, *CONTAINER)
    bytes_ = f"sum by {each} ({scope.of_containers('container_misplaced_bytes')})"
    with_bytes = f"max by {labels(*scope.by, *CONTAINER, 'verdict')} ({judged} * on {each} group_left () {bytes_})"
    without = f"max by {labels(*scope.by, *CONTAINER, 'verdict')} ({judged} * 0)"
    return f"topk by (verdict) ({top}, {with_bytes} or {without})"


def details(scope: Scope, containers: Sequence[tuple[str, str, str]]) -> list[str]:
    """More of some containers, by (namespace, pod, container): several queries where their names are many."""
    parts = [containers[begin : begin + _NAMES] for begin in range(0, len(containers), _NAMES)]
    matchers = [[matched(label, (one[at] for one in part)) for at, label in enumerate(CONTAINER)] for part in parts]
    return [scope.of(DETAILS, *names) for names in matchers]


def refusals(scope: Scope) -> str:
    """Pods that a kubelet has refused lately, by agent, reason and outcome."""
    return f"sum by {labels(*scope.by, 'reason', 'outcome')} ({_lately(scope.of('admission_rejections_total'))}) > 0"


def refused_workloads(scope: Scope, top: int) -> str:
    """The same by workload, of those that were refused most."""
    refused = _lately(scope.of_containers("admission_workload_rejections_total"))
    return f"topk({top}, sum by (namespace, workload) ({refused}) > 0)"


def findings(scope: Scope) -> str:
    """Containers by agent and finding."""
    return f"count by {labels(*scope.by, 'finding')} ({scope.of_containers('container_finding')})"


def room(scope: Scope) -> str:
    """The Memory Manager's memory map in sums, and what it leaves."""
    free = scope.of("memory_manager_bytes", 'type="memory"', 'state="free"')
    allocatable = scope.of("memory_manager_allocatable_bytes", 'type="memory"')
    others = scope.of("memory_manager_stranded_bytes|memory_manager_admissible_bytes")
    return f"sum by {labels('__name__', *scope.by, 'width')} ({free} or {allocatable} or {others})"


def problems(scope: Scope) -> str:
    """Checkpoints that are wrong, pods that a restart would refuse, sources that are silent, containers left out."""
    wrong = f"{scope.of('state_valid|state_restart_safe')} == 0"
    counted = f"{scope.of('restart_refused_pods|omitted_containers')} > 0"
    old = f"{scope.of('collector_age_seconds')} > {OLD_SECONDS}"
    return f"max by {labels('__name__', *scope.by, 'file', 'reboot', 'collector')} ({wrong} or {counted} or {old})"


def memory_maps(scope: Scope) -> str:
    """Every node's memory map, whole."""
    return scope.of(MAP)


def distances(scope: Scope) -> str:
    """The machines' distances; only some policies ask for them."""
    return scope.of("node_distance")


def source_ages(scope: Scope) -> str:
    """Seconds since the kubelet's sources were read, where that is long ago."""
    older_agents = (one.replace("-", " ") for one in ROOM_SOURCES)
    names = matched("collector", (*ROOM_SOURCES, *older_agents))
    return f"{scope.of('collector_age_seconds', names)} > {OLD_SECONDS}"


def stale_entries(scope: Scope) -> str:
    """Agents in whose memory maps containers hold something that are gone."""
    return f"{scope.of('memory_manager_stale_entries')} > 0"


def _lately(counter: str) -> str:
    """Increase of a counter in the window. One that is new counts from 0, and so does one that began again:
    increase() misses the first value of a series that begins above 0."""
    return f"(({counter} - ({counter} offset {_HOUR} or {counter} * 0)) >= 0 or {counter})"
