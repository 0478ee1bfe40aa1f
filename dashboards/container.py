"""One container: promised, allowed, resident, used from where."""

from __future__ import annotations

from dashboards.choices import (
    BY_CONTAINER,
    CONTAINER,
    CONTAINER_CHOICES,
    ONE_CONTAINER,
    RANKS,
    docs,
    series,
    verdict_rank,
    worst,
)
from dashboards.model import Dashboard, Section
from dashboards.panels import Bars, Column, Lines, Query, Stat, States, Table


def _of(name: str, *matchers: str, **labels: str) -> str:
    return series(f"numaudit_container_{name}", ONE_CONTAINER, *matchers, **labels)


def _rate(name: str, **labels: str) -> str:
    return f"rate({_of(name, **labels)}[$__rate_interval])"


_VERDICTS = verdict_rank(ONE_CONTAINER)
_SAME_NAME = 10
"""Containers of one name on all nodes whose verdicts are shown, the worst ones."""
_NOT_SEEN = "No agent reports this container"
_JUDGED = 'type=~"anon|shmem|hugetlb"'

_VERDICT = Section(
    "Did it get what it was promised?",
    (
        Stat(
            title="Verdict",
            description="The container has this verdict now. docs/verdicts.md says what each verdict means and what "
            "to do.",
            empty=_NOT_SEEN,
            queries=[Query(f"topk({_SAME_NAME}, {_VERDICTS})", now=True)],
            width=4,
            values=RANKS,
        ),
        States(
            title="Verdict over time",
            description="The graph says since when the verdict holds, and what it was before. In a gap the container "
            "was not seen.",
            empty=_NOT_SEEN,
            queries=[Query(worst(_SAME_NAME, _VERDICTS, BY_CONTAINER), "{{$nodelabel}} {{container}}")],
            width=8,
            values=RANKS,
        ),
        Table(
            title="Findings",
            description="These are further problems and risks of the container. docs/findings.md explains each "
            "finding.",
            empty="No finding",
            queries=[Query(f"max by (finding) ({_of('finding')})", now=True)],
            columns=(Column("finding", "Finding"),),
            width=4,
        ),
        Table(
            title="About it",
            description="These are facts of the newest instance, and how the hints turned out at its admission.",
            empty=_NOT_SEEN,
            queries=[
                Query(f"max by (qos, runtime, pod_uid) ({_of('info')})", now=True),
                Query(f"max by (outcome) ({_of('hint_outcome')})", now=True),
            ],
            columns=(
                Column("qos", "QoS"),
                Column("outcome", "Hint outcome"),
                Column("runtime", "Runtime"),
                Column("pod_uid", "Pod UID"),
            ),
            width=8,
        ),
    ),
    height=5,
)

_CHAIN = Section(
    "Promised, allowed, resident, used from",
    (
        Table(
            title="Promised",
            description="The kubelet's managers promised these nodes, by resource.",
            empty="Nothing was promised",
            queries=[Query(f"max by (numa_node, resource) ({_of('intended_node')})", now=True)],
            columns=(Column("resource", "Promised"), Column("numa_node", "NUMA node")),
        ),
        Table(
            title="Allowed",
            description="The kernel allows the container these nodes, by its cpuset now. If they are others than "
            "promised, it has drifted.",
            empty=_NOT_SEEN,
            queries=[Query(f"max by (numa_node, resource) ({_of('allowed_node')})", now=True)],
            columns=(Column("resource", "Allowed"), Column("numa_node", "NUMA node")),
        ),
        Bars(
            title="Resident",
            description="The container has these judged bytes on each NUMA node: anon, shmem and huge pages. Page "
            "cache does not count.",
            empty="It has no memory that counts for a verdict",
            queries=[Query(f"sum by (numa_node) ({_of('resident_bytes', _JUDGED)})", "node {{numa_node}}", now=True)],
            unit="bytes",
        ),
        Lines(
            title="Used from",
            description="The container kept this number of CPUs of each NUMA node busy. Memory of these nodes is "
            "local to it.",
            empty="No CPU time is measured; see Unavailable features on Agents",
            queries=[Query(f"sum by (numa_node) ({_rate('cpu_seconds_total')})", "node {{numa_node}}")],
            minimum=0,
            stacked=True,
        ),
    ),
    height=7,
)

_BYTES = Section(
    "Memory",
    (
        Lines(
            title="Resident over time",
            description="The container has this much memory on each NUMA node, by type.",
            empty=_NOT_SEEN,
            queries=[Query(f"sum by (numa_node, type) ({_of('resident_bytes')})", "node {{numa_node}} {{type}}")],
            width=8,
            unit="bytes",
            minimum=0,
            stacked=True,
        ),
        Lines(
            title="Promised bytes and aligned bytes",
            description="The lines show the promised memory, the memory of that kind in use (judged), and its part "
            "on the promised nodes (aligned). The promise is above the rest until the memory is used.",
            empty="It has no memory that counts for a verdict",
            queries=[
                Query(f"sum({_of('intended_bytes')})", "promised"),
                Query(f"sum({_of('judged_bytes')})", "judged"),
                Query(f"sum({_of('aligned_bytes')})", "aligned"),
            ],
            width=8,
            unit="bytes",
            minimum=0,
        ),
        Lines(
            title="Misplaced by NUMA node",
            description="These judged bytes are on nodes that were not promised.",
            empty="No byte is misplaced",
            queries=[Query(f"sum by (numa_node) ({_of('misplaced_bytes')})", "node {{numa_node}}")],
            width=8,
            unit="bytes",
            minimum=0,
        ),
        Lines(
            title="Ranks by verdict",
            description="This number of processes with a declared placement have each verdict. Agents count them where "
            "`ranks.enabled` is set.",
            empty="It declares no placement, or its agent does not watch ranks",
            queries=[Query(f"sum by (verdict) ({_of('ranks')})", "{{verdict}}")],
            width=8,
            minimum=0,
        ),
        Lines(
            title="Given from where to where",
            description="The kernel gave the container this many bytes per second, from the NUMA node of its CPU to "
            "that of the page. The graph needs the probe page_alloc.",
            empty="The probe page_alloc is off",
            queries=[
                Query(
                    f"sum by (cpu_numa_node, numa_node, locality) ({_rate('allocated_bytes_total')})",
                    "{{cpu_numa_node}} to {{numa_node}}, {{locality}}",
                )
            ],
            width=8,
            unit="Bps",
            minimum=0,
        ),
        Lines(
            title="Migrated",
            description="The tasks of the container moved this many bytes per second between nodes, their own or "
            "others', by reason.",
            empty="No migration was counted, or the probe is off",
            queries=[Query(f"sum by (reason) ({_rate('migrated_bytes_total')})", "{{reason}}")],
            width=8,
            unit="Bps",
            minimum=0,
        ),
    ),
)

_ACCESS = Section(
    "Use of memory",
    (
        Lines(
            title="Remote share by source",
            description="Each line is the share of its accesses that go to memory of another node. The source pmu "
            "counts them; expected is the share if the container used every byte equally, which nobody measured. "
            "Compare a source with itself, not with another one.",
            empty="No source gives a remote share",
            queries=[Query(f"max by (source) ({_of('remote_ratio')})", "{{source}}")],
            width=12,
            unit="percentunit",
            minimum=0,
            maximum=1,
        ),
        Lines(
            title="Memory used remotely, at least",
            description="NUMA balancing saw these bytes used from another node in one scan pass. They say which memory "
            "is used, not how often; memory that was not seen may be used remotely, too.",
            empty="NUMA balancing saw no remote use, which proves nothing, or the probe is off",
            queries=[Query(f"sum by (source) ({_of('used_remotely_bytes')})", "{{source}}")],
            width=12,
            unit="bytes",
            minimum=0,
        ),
        Lines(
            title="Counted accesses",
            description="The processor counted this number of memory accesses per second. The graph needs a PMU with "
            "such events.",
            empty="No processor here counts accesses",
            queries=[
                Query(
                    f"sum by (locality, unit) ({_rate('memory_accesses_total')})",
                    "{{locality}} {{unit}}",
                )
            ],
            width=8,
            unit="cps",
            minimum=0,
        ),
        Lines(
            title="Hint faults from where to where",
            description="NUMA balancing saw this number of pages used per second, from the CPU's NUMA node to the "
            "page's.",
            empty="NUMA balancing samples nothing, or the probe is off",
            queries=[
                Query(
                    f"sum by (cpu_numa_node, numa_node, locality) ({_rate('hint_faults_total')})",
                    "{{cpu_numa_node}} to {{numa_node}}, {{locality}}",
                )
            ],
            width=8,
            unit="cps",
            minimum=0,
        ),
        Lines(
            title="Waiting for remote memory",
            description="The container spent at most this number of CPUs' time waiting for remote memory: without "
            "overlap, and at the farthest node's latency.",
            empty="No processor here counts accesses",
            queries=[Query(f"sum by (source) ({_rate('remote_stall_seconds_total')})", "{{source}}")],
            width=8,
            unit="none",
            minimum=0,
        ),
        Lines(
            title="Mean distance to its memory",
            description="This is the distance from where the container runs to its bytes, if it used every byte "
            "equally, divided by the local distance: 1 is all local, and 2.1 is all on a node at distance 21.",
            empty="No CPU time is measured; see Unavailable features on Agents",
            queries=[Query(f"max({_of('distance_ratio')})", "distance")],
            width=24,
            unit="none",
            minimum=1,
        ),
    ),
)

DASHBOARD = Dashboard(
    uid=CONTAINER,
    title="numaudit / Container",
    description="One container: promised, allowed, resident, and used from where.",
    variables=CONTAINER_CHOICES,
    sections=(_VERDICT, _CHAIN, _BYTES, _ACCESS),
    links=(
        docs("dashboards.md", "About this page"),
        docs("verdicts.md", "Verdicts"),
        docs("access.md", "From where memory is used"),
    ),
)
