"""One Kubernetes node, or one host."""

from __future__ import annotations

from dashboards.choices import (
    BY_CONTAINER,
    COLORS,
    NODE,
    NODE_FIELDS,
    NODES,
    ONE_NODE,
    RANKS,
    TO_CONTAINER,
    docs,
    series,
    verdict_rank,
)
from dashboards.model import Dashboard, Section
from dashboards.panels import Bars, Column, Lines, Query, Stat, Table, Value


def _of(name: str, *matchers: str, **labels: str) -> str:
    return series(f"numaudit_{name}", NODES, *matchers, **labels)


def _rate(name: str, **labels: str) -> str:
    return f"rate({_of(name, **labels)}[$__rate_interval])"


_TYPES = ("anon", "shmem", "file", "hugetlb", "kernel", "free")
_FREE = _of("node_memory_bytes", type="free")
_TOTAL = _of("node_memory_total_bytes")
_POLICIES = ("memory_manager", "cpu_manager", "topology_manager", "scope", "topology_manager_options")
_VERSION = "kubernetes_version"
_SAFE = (Value(1, "safe", "green"), Value(0, "unsafe", "red"))
_VALID = (Value(1, "valid", "green"), Value(0, "not valid", "red"))


_CONTAINERS = Section(
    "Containers",
    (
        Bars(
            title="Containers by verdict",
            description="Number of containers of this node by verdict.",
            queries=[Query(f"sum by (verdict) ({_of('container_verdict')})", "{{verdict}}", now=True)],
            colors=COLORS,
        ),
        Table(
            title="Containers by bytes",
            description="The 50 containers with the most memory that counts for a verdict (anon, shmem and huge "
            "pages); the name leads to the container. Expected remote is the share of accesses to another node's "
            "memory if every byte were used equally.",
            queries=[
                Query(f"topk(50, sum by ({BY_CONTAINER}) ({_of('container_judged_bytes')}))", now=True),
                Query(verdict_rank(NODES), now=True),
                Query(f"sum by ({BY_CONTAINER}) ({_of('container_misplaced_bytes')}) > 0", now=True),
                Query(
                    f"max by ({BY_CONTAINER}) ({_of('container_remote_ratio', source='expected')})",
                    now=True,
                ),
            ],
            width=18,
            columns=(
                Column("Value #B", "Verdict", values=RANKS, colored=True),
                Column(NODE_FIELDS, "Node"),
                Column("namespace", "Namespace"),
                Column("pod", "Pod"),
                Column("container", "Container", link=TO_CONTAINER),
                Column("Value #A", "Judged", "bytes"),
                Column("Value #C", "Misplaced", "bytes"),
                Column("Value #D", "Expected remote", "percentunit", decimals=1),
            ),
            sort="Judged",
        ),
    ),
    height=9,
)

_MEMORY_BY_NODE = Section(
    "Memory",
    (
        Lines(
            title="Free memory by NUMA node",
            description="Free memory of each NUMA node as a share of all it has. A node near 0 makes the kernel place "
            "pages elsewhere.",
            queries=[Query(f"sum by (numa_node) ({_FREE}) / sum by (numa_node) ({_TOTAL})", "node {{numa_node}}")],
            width=8,
            unit="percentunit",
            minimum=0,
            maximum=1,
        ),
        Table(
            title="Memory of each NUMA node by type",
            description="Memory of each NUMA node by type, by the node's own count. What is left of the total is not "
            "accounted for by the kernel.",
            queries=[
                Query(f"sum by (numa_node) ({_TOTAL})", now=True),
                *(Query(f"sum by (numa_node) ({_of('node_memory_bytes', type=kind)})", now=True) for kind in _TYPES),
            ],
            width=16,
            columns=(
                Column("numa_node", "NUMA node"),
                Column("Value #A", "total", "bytes"),
                *(Column(f"Value #{chr(ord('B') + at)}", kind, "bytes") for at, kind in enumerate(_TYPES)),
            ),
        ),
        Lines(
            title="Not in any container",
            description="Memory of the root cgroup itself, by NUMA node.",
            queries=[Query(f"sum by (numa_node) ({_of('node_unattributed_bytes')})", "node {{numa_node}}")],
            width=12,
            unit="bytes",
        ),
        Lines(
            title="Error of the accounts",
            description="The node's own count less containers and root cgroup; signed. The three are read at slightly "
            "different times, so a few MiB are normal.",
            queries=[Query(f"sum by (numa_node) ({_of('node_residual_bytes')})", "node {{numa_node}}")],
            width=12,
            unit="bytes",
        ),
    ),
)

_TRAFFIC = Section(
    "Traffic between NUMA nodes",
    (
        Lines(
            title="CPU time by NUMA node",
            description="CPUs that containers kept busy, by the NUMA node they ran on; those that came and went "
            "between two ticks included.",
            queries=[
                Query(
                    f"sum by (numa_node) ({_rate('container_cpu_seconds_total')} or "
                    f"{_rate('node_ended_cpu_seconds_total')})",
                    "node {{numa_node}}",
                )
            ],
            unit="none",
            minimum=0,
            stacked=True,
        ),
        Lines(
            title="NUMA hint faults",
            description="NUMA balancing's samples of memory that is used, per second, by whether the page was on the "
            "CPU's own node. Many remote ones: memory is used from elsewhere. Pages with a memory policy are never "
            "sampled.",
            queries=[
                Query(f"sum({_rate('node_hint_faults_local_total')})", "local"),
                Query(
                    f"sum({_rate('node_hint_faults_total')}) - sum({_rate('node_hint_faults_local_total')})",
                    "remote",
                ),
            ],
            unit="cps",
            minimum=0,
            colors={"local": "green", "remote": "orange"},
        ),
        Lines(
            title="Migrated memory",
            description="Bytes per second that tasks of containers moved between NUMA nodes, by the kernel's reason: "
            "numa_misplaced is NUMA balancing, syscall_or_cpuset and mempolicy_mbind are what somebody asked for.",
            queries=[Query(f"sum by (reason) ({_rate('container_migrated_bytes_total')})", "{{reason}}")],
            unit="Bps",
            minimum=0,
        ),
        Lines(
            title="Memory given on another node than wanted",
            description="Bytes per second that the kernel placed on a NUMA node although another one was wanted "
            "(numa_miss), because that one had none: the mark of a full node. Stays 0 for memory that a cpuset puts "
            "elsewhere.",
            queries=[
                Query(
                    f"sum by (numa_node) ({_rate('node_numastat_bytes_total', event='numa_miss')})",
                    "on node {{numa_node}}",
                )
            ],
            unit="Bps",
            minimum=0,
        ),
        Lines(
            title="Memory given to CPUs of other nodes",
            description="Bytes per second that were given on a NUMA node to a program that ran on another one "
            "(other_node). It is remote from its first use on.",
            queries=[
                Query(
                    f"sum by (numa_node) ({_rate('node_numastat_locality_bytes_total', event='other_node')})",
                    "on node {{numa_node}}",
                )
            ],
            width=8,
            unit="Bps",
            minimum=0,
        ),
        Lines(
            title="Interleaved memory",
            description="Bytes per second that an interleaving policy placed, by NUMA node.",
            queries=[
                Query(
                    f"sum by (numa_node) ({_rate('node_numastat_interleaved_bytes_total')})",
                    "on node {{numa_node}}",
                )
            ],
            width=8,
            unit="Bps",
            minimum=0,
        ),
        Table(
            title="Distances",
            description="Relative memory distance between NUMA nodes by the firmware (SLIT): 10 is local, 20 is twice "
            "as far. Many machines claim 20 or 21 for every other node.",
            queries=[Query(f"max by (from_numa_node, to_numa_node) ({_of('node_distance')})", now=True)],
            width=8,
            columns=(
                Column("from_numa_node", "From node"),
                Column("to_numa_node", "To node"),
                Column("Value", "Distance"),
            ),
            sort="Distance",
        ),
    ),
)

_ROOM = Section(
    "Room for promises",
    (
        Stat(
            title="Largest container that fits",
            description="The largest request for memory that the Memory Manager would admit now, on so many NUMA "
            "nodes. CPUs and devices may allow less.",
            queries=[
                Query(
                    f"max by (width) ({_of('memory_manager_admissible_bytes')})",
                    "on {{width}}",
                    now=True,
                )
            ],
            width=8,
            unit="bytes",
        ),
        Lines(
            title="Memory to promise, by NUMA node",
            description="Memory of the Memory Manager that is free for new promises, by NUMA node.",
            queries=[
                Query(
                    f"sum by (numa_node) ({_of('memory_manager_bytes', type='memory', state='free')})",
                    "node {{numa_node}}",
                )
            ],
            width=8,
            unit="bytes",
            minimum=0,
        ),
        Lines(
            title="Stranded memory",
            description="Memory that is free, but for no container of one NUMA node, because the node is in a group of "
            "several. Fragmentation: a container over several nodes caused it.",
            queries=[
                Query(
                    f"sum by (numa_node) ({_of('memory_manager_stranded_bytes')})",
                    "node {{numa_node}}",
                )
            ],
            width=8,
            unit="bytes",
            minimum=0,
        ),
        Lines(
            title="Fragmentation",
            description="Share of the largest container of one NUMA node that all free memory is enough for, but that "
            "is not admitted, for no node has as much of it. 0: free memory is in one piece.",
            queries=[Query(f"max({_of('memory_manager_fragmentation_ratio')})", "fragmentation")],
            width=8,
            unit="percentunit",
            minimum=0,
            maximum=1,
        ),
        Lines(
            title="Memory without a promise",
            description="The anon and shmem on each NUMA node that no promise covers: of Burstable containers, "
            "services and all others.",
            queries=[
                Query(f"sum by (numa_node) ({_of('memory_manager_unpromised_bytes')})", "node {{numa_node}}"),
            ],
            width=8,
            unit="bytes",
            minimum=0,
        ),
        Lines(
            title="Memory in the way of promises",
            description="Part of the memory without a promise that is beyond the system's reservation: "
            "in memory that the "
            "map has as free (the next container gets less than it was promised) or as reserved (one that runs may).",
            queries=[
                Query(
                    f"sum by (numa_node, state) ({_of('memory_manager_encroached_bytes')})",
                    "node {{numa_node}}, {{state}}",
                )
            ],
            width=8,
            unit="bytes",
            minimum=0,
        ),
        Table(
            title="Memory Manager's map",
            description="The memory map of each NUMA node, by type: all memory, what the kubelet's "
            "settings reserve for the system, what is promised to containers, and what is free.",
            queries=[
                Query(f"sum by (numa_node, type) ({_of('memory_manager_total_bytes')})", now=True),
                Query(f"sum by (numa_node, type) ({_of('memory_manager_system_reserved_bytes')})", now=True),
                Query(f"sum by (numa_node, type) ({_of('memory_manager_bytes', state='reserved')})", now=True),
                Query(f"sum by (numa_node, type) ({_of('memory_manager_bytes', state='free')})", now=True),
            ],
            width=12,
            columns=(
                Column("numa_node", "NUMA node"),
                Column("type", "Type"),
                Column("Value #A", "Total", "bytes"),
                Column("Value #B", "System", "bytes"),
                Column("Value #C", "Promised", "bytes"),
                Column("Value #D", "Free", "bytes"),
            ),
            sort="Total",
        ),
        Table(
            title="Groups of NUMA nodes",
            description="NUMA nodes with promises, their group, and the number of promises. A node "
            "of a group of several takes no container for itself alone.",
            queries=[
                Query(f"max by (numa_node, group) ({_of('memory_manager_group')})", now=True),
                Query(f"max by (numa_node) ({_of('memory_manager_assignments')})", now=True),
            ],
            columns=(
                Column("numa_node", "NUMA node"),
                Column("group", "Group"),
                Column("Value #B", "Promises"),
            ),
            width=6,
        ),
        Bars(
            title="Hint outcomes",
            description="Outcomes of the Topology Manager's hints for the containers that run. docs/verdicts.md "
            "explains each.",
            queries=[Query(f"sum by (outcome) ({_of('container_hint_outcome')})", "{{outcome}}", now=True)],
            width=6,
        ),
    ),
)

_KUBELET = Section(
    "Kubelet",
    (
        Table(
            title="Policies",
            description="The kubelet's version and its policies. Without the policy Static of the Memory Manager "
            "nothing is promised.",
            queries=[
                Query(
                    f"max by ({', '.join((*_POLICIES, _VERSION))}) ({_of('node_policy_info')})",
                    now=True,
                )
            ],
            columns=(
                Column("memory_manager", "Memory Manager"),
                Column("cpu_manager", "CPU Manager"),
                Column("topology_manager", "Topology Manager"),
                Column("scope", "Scope"),
                Column("topology_manager_options", "Options"),
                Column(_VERSION, "Kubernetes"),
            ),
            width=12,
        ),
        Table(
            title="Checkpoints",
            description="The kubelet's state files: are they right, and would it start again with them? "
            "`numaudit state verify` says more.",
            queries=[
                Query(f"min by (file) ({_of('state_restart_safe')})", now=True),
                Query(f"min by (file) ({_of('state_valid')})", now=True),
            ],
            columns=(
                Column("file", "File"),
                Column("Value #A", "Restart", values=_SAFE, colored=True),
                Column("Value #B", "Content", values=_VALID, colored=True),
            ),
        ),
        Table(
            title="Problems of checkpoints",
            description="Problems of state files. docs/state.md explains each reason.",
            queries=[Query(f"max by (file, reason) ({_of('state_problem_info')})", now=True)],
            columns=(Column("file", "File"), Column("reason", "Reason")),
        ),
        Stat(
            title="Pods a restart would refuse",
            description="Running pods that the kubelet would not admit again: after a restart of itself, and after a "
            "reboot. `numaudit state forecast` names them.",
            queries=[
                Query(
                    f"max({_of('restart_refused_pods', reboot='false')})",
                    "kubelet restart",
                    now=True,
                ),
                Query(f"max({_of('restart_refused_pods', reboot='true')})", "reboot", now=True),
            ],
            width=8,
            warn=1,
        ),
        Lines(
            title="Refused pods",
            description="Pods that the kubelet refused, in each interval of the graph, by outcome.",
            queries=[
                Query(
                    "sum by (outcome) (increase(" + _of("admission_rejections_total") + "[$__rate_interval]))",
                    "{{outcome}}",
                )
            ],
            width=16,
            minimum=0,
        ),
    ),
    height=6,
)

DASHBOARD = Dashboard(
    uid=NODE,
    title="numaudit / Node",
    description="One node: its memory, its traffic between NUMA nodes, and the room it has for promises.",
    variables=ONE_NODE,
    sections=(_CONTAINERS, _MEMORY_BY_NODE, _TRAFFIC, _ROOM, _KUBELET),
    links=(docs("dashboards.md", "About this page"), docs("measuring.md", "What can be measured")),
)
