"""One container: promised, allowed, resident, used from where."""

from __future__ import annotations

from dashboards.choices import (
    CONTAINER,
    CONTAINER_CHOICES,
    ONE_CONTAINER,
    RANKS,
    docs,
    series,
    verdict_rank,
)
from dashboards.model import Dashboard, Section
from dashboards.panels import Bars, Column, Lines, Query, Stat, States, Table


def _of(name: str, *matchers: str, **labels: str) -> str:
    return series(f"numaudit_container_{name}", ONE_CONTAINER, *matchers, **labels)


def _rate(name: str, **labels: str) -> str:
    return f"rate({_of(name, **labels)}[$__rate_interval])"


_JUDGED = 'type=~"anon|shmem|hugetlb"'

_VERDICT = Section(
    "Did it get what it was promised?",
    (
        Stat(
            title="Verdict",
            description="The verdict now. docs/verdicts.md says what each means and what to do.",
            queries=[Query(verdict_rank(ONE_CONTAINER), now=True)],
            width=4,
            values=RANKS,
        ),
        States(
            title="Verdict over time",
            description="Since when the verdict holds, and what it was before. A gap: it was not seen.",
            queries=[Query(verdict_rank(ONE_CONTAINER), "{{$nodelabel}} {{container}}")],
            width=8,
            values=RANKS,
        ),
        Table(
            title="Findings",
            description="Further problems and risks of the container. docs/verdicts.md explains each finding.",
            queries=[Query(f"max by (finding) ({_of('finding')})", now=True)],
            columns=(Column("finding", "Finding"),),
            width=4,
        ),
        Table(
            title="About it",
            description="Facts of the newest instance, and how the hints turned out at its admission.",
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
            description="The nodes that the kubelet's managers promised, by resource. Empty: nothing was promised.",
            queries=[Query(f"max by (numa_node, resource) ({_of('intended_node')})", now=True)],
            columns=(Column("resource", "Promised"), Column("numa_node", "NUMA node")),
        ),
        Table(
            title="Allowed",
            description="The nodes that the kernel allows it, by its cpuset now. Others than promised: drifted.",
            queries=[Query(f"max by (numa_node, resource) ({_of('allowed_node')})", now=True)],
            columns=(Column("resource", "Allowed"), Column("numa_node", "NUMA node")),
        ),
        Bars(
            title="Resident",
            description="Its judged bytes by NUMA node: anon, shmem and huge pages. Page cache does not count.",
            queries=[Query(f"sum by (numa_node) ({_of('resident_bytes', _JUDGED)})", "node {{numa_node}}", now=True)],
            unit="bytes",
        ),
        Lines(
            title="Used from",
            description="CPUs that it kept busy, by the NUMA node they are on: memory of these nodes is local to it.",
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
            description="Its memory by NUMA node and type.",
            queries=[Query(f"sum by (numa_node, type) ({_of('resident_bytes')})", "node {{numa_node}} {{type}}")],
            width=8,
            unit="bytes",
            minimum=0,
            stacked=True,
        ),
        Lines(
            title="Promised bytes and aligned bytes",
            description="Promised memory, used memory of that kind (judged), and its part on the promised "
            "nodes (aligned). The promise is above the rest until the memory is used.",
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
            description="Judged bytes on nodes that were not promised.",
            queries=[Query(f"sum by (numa_node) ({_of('misplaced_bytes')})", "node {{numa_node}}")],
            width=8,
            unit="bytes",
            minimum=0,
        ),
        Lines(
            title="Given from where to where",
            description="Bytes per second that the kernel gave it: from the NUMA node of its CPU to that of the page. "
            "Needs the probe page_alloc.",
            queries=[
                Query(
                    f"sum by (cpu_numa_node, numa_node, locality) ({_rate('allocated_bytes_total')})",
                    "{{cpu_numa_node}} to {{numa_node}}, {{locality}}",
                )
            ],
            width=12,
            unit="Bps",
            minimum=0,
        ),
        Lines(
            title="Migrated",
            description="Bytes per second that its tasks moved between nodes, their own or others', by reason.",
            queries=[Query(f"sum by (reason) ({_rate('migrated_bytes_total')})", "{{reason}}")],
            width=12,
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
            description="Share of its accesses to memory of another node. pmu: counted. expected: if it used every "
            "byte equally, which nobody measured. Compare one source with itself, not with another one.",
            queries=[Query(f"max by (source) ({_of('remote_ratio')})", "{{source}}")],
            width=12,
            unit="percentunit",
            minimum=0,
            maximum=1,
        ),
        Lines(
            title="Lower end of the remote share",
            description="Used from other nodes for certain. pmu: of its accesses. hint_faults: of its memory, by "
            "pages that were seen used. The verdict remote-access goes by it.",
            queries=[Query(f"max by (source) ({_of('remote_ratio_lower')})", "{{source}}")],
            width=6,
            unit="percentunit",
            minimum=0,
            maximum=1,
        ),
        Lines(
            title="Memory seen used",
            description="Bytes that the newest scan pass of NUMA balancing saw used from their own node, and from "
            "other nodes. It says which memory is used, not how often.",
            queries=[Query(f"sum by (locality) ({_of('sampled_page_bytes')})", "{{locality}}")],
            width=6,
            unit="bytes",
            minimum=0,
        ),
        Lines(
            title="Counted accesses",
            description="Memory accesses per second that the processor counted. Needs a PMU with such events.",
            queries=[
                Query(
                    f"sum by (locality, unit) ({_rate('memory_accesses_total')})",
                    "{{locality}} {{unit}}",
                )
            ],
            unit="cps",
            minimum=0,
        ),
        Lines(
            title="Hint faults from where to where",
            description="Pages that NUMA balancing saw used, per second: from the CPU's NUMA node to the page's.",
            queries=[
                Query(
                    f"sum by (cpu_numa_node, numa_node, locality) ({_rate('hint_faults_total')})",
                    "{{cpu_numa_node}} to {{numa_node}}, {{locality}}",
                )
            ],
            unit="cps",
            minimum=0,
        ),
        Lines(
            title="First uses of pages",
            description="Sampled first uses per second, by whether the page was on the CPU's node. Needs the probe "
            "first_touch.",
            queries=[
                Query(f"sum by (locality, source) ({_rate('memory_access_samples_total')})", "{{locality}} {{source}}")
            ],
            unit="cps",
            minimum=0,
        ),
        Lines(
            title="Waiting for remote memory",
            description="CPUs' worth of time spent waiting for remote memory, at most: no overlap, and the farthest "
            "node's latency.",
            queries=[Query(f"sum by (source) ({_rate('remote_stall_seconds_total')})", "{{source}}")],
            unit="none",
            minimum=0,
        ),
        Lines(
            title="Mean distance to its memory",
            description="Distance from where it runs to its bytes, if every byte were used equally, over the local "
            "distance: 1 is all local, 2.1 is all on a node at distance 21.",
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
