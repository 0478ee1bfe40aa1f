"""One Kubernetes node, or one host."""

from __future__ import annotations

from dashboards.choices import (
    BY_CONTAINER,
    COLORS,
    EVERY_AGENT,
    MISALIGNED_VERDICTS,
    NODE,
    NODE_FIELDS,
    NODES,
    NUMA_REFUSALS,
    ONE_NODE,
    RANKS,
    TO_CONTAINER,
    docs,
    remote_share,
    series,
    verdict_rank,
)
from dashboards.model import Dashboard, Section
from dashboards.panels import Bars, Column, Lines, Matrix, Query, Stat, Table, Value


def _of(name: str, *matchers: str, **labels: str) -> str:
    return series(f"numaudit_{name}", NODES, *matchers, **labels)


def _rate(name: str, **labels: str) -> str:
    return f"rate({_of(name, **labels)}[$__rate_interval])"


_TYPES = ("anon", "shmem", "file", "hugetlb", "kernel", "free")
_FREE = _of("node_memory_bytes", type="free")
_TOTAL = _of("node_memory_total_bytes")
_MISALIGNED = f'verdict=~"{MISALIGNED_VERDICTS}"'
_POLICIES = ("memory_manager", "cpu_manager", "topology_manager", "scope", "topology_manager_options")
_VERSION = "kubernetes_version"
_SAFE = (Value(1, "safe", "green"), Value(0, "unsafe", "red"))
_VALID = (Value(1, "valid", "green"), Value(0, "not valid", "red"))


_NO_AGENT = "No agent reports"
_NO_KUBELET = "No kubelet with a static Memory Manager"
_NONE = f"0 * count({series(EVERY_AGENT, NODES)})"
"""0 where there is an agent: without it, a number is not known, and not 0."""


def _or_none(promql: str) -> str:
    return f"{promql} or {_NONE}"


_FIRST = Section(
    "Is anything wrong?",
    (
        Stat(
            title="Kubelet at a restart",
            description="This says whether the kubelet would start again with its checkpoints and configuration. "
            "The table of checkpoints below names the file that is unsafe.",
            queries=[Query(f"min({_of('state_restart_safe')})", now=True)],
            empty=_NO_KUBELET,
            width=4,
            values=_SAFE,
        ),
        Stat(
            title="Misaligned containers",
            description="This number of containers does not have what it was promised: their verdicts are drifted, "
            "spilled, cpu-remote or remote-access.",
            queries=[
                Query(_or_none(f"sum({_of('container_verdict', _MISALIGNED)})"), now=True),
            ],
            empty=_NO_AGENT,
            width=4,
            bad=1,
        ),
        Stat(
            title="Findings",
            description="This number of findings about containers holds now. The dashboard Fleet lists them.",
            queries=[Query(_or_none(f"sum({_of('container_finding')})"), now=True)],
            empty=_NO_AGENT,
            width=4,
            warn=1,
        ),
        Stat(
            title="Misplaced memory",
            description="Containers have this number of bytes on NUMA nodes that they were not promised.",
            queries=[Query(_or_none(f"sum({_of('container_misplaced_bytes')})"), now=True)],
            empty=_NO_AGENT,
            width=4,
            unit="bytes",
            warn=1,
        ),
        Stat(
            title="Verdict unknown",
            description="For this number of containers with a promise, evidence is missing. `numaudit report` names "
            "the evidence.",
            queries=[Query(_or_none(f"sum({_of('container_verdict', verdict='unknown')})"), now=True)],
            empty=_NO_AGENT,
            width=4,
            warn=1,
        ),
        Stat(
            title="Age of the newest snapshot",
            description="The figures of this page were measured this long before the newest scrape.",
            queries=[Query(f"max({_of('snapshot_age_seconds')})", now=True)],
            empty=_NO_AGENT,
            width=4,
            unit="s",
            warn=180,
            decimals=0,
        ),
    ),
    height=4,
)

_MOST = f"topk(50, sum by ({BY_CONTAINER}) ({_of('container_judged_bytes')}))"


def _of_most(promql: str) -> Query:
    return Query(f"({promql}) and on ({BY_CONTAINER}) {_MOST}", now=True)


_CONTAINERS = Section(
    "Containers",
    (
        Bars(
            title="Containers by verdict",
            description="The bars count the containers of this node by verdict.",
            queries=[Query(f"sum by (verdict) ({_of('container_verdict')})", "{{verdict}}", now=True)],
            empty="No agent reports any container",
            colors=COLORS,
        ),
        Table(
            title="Containers by bytes",
            description="The table shows the 50 containers with the most memory that counts for a verdict (anon, shmem "
            "and huge pages), and the name of a container leads to its page. Remote is the share of accesses to "
            "another node's memory: measured by the processor, or expected if the container used every byte equally.",
            queries=[
                Query(_MOST, now=True),
                _of_most(verdict_rank(NODES)),
                _of_most(f"sum by ({BY_CONTAINER}) ({_of('container_misplaced_bytes')}) > 0"),
                _of_most(remote_share(NODES)),
            ],
            empty="No agent reports any container",
            width=18,
            columns=(
                Column("Value #B", "Verdict", values=RANKS, colored=True),
                Column(NODE_FIELDS, "Node"),
                Column("namespace", "Namespace"),
                Column("pod", "Pod"),
                Column("container", "Container", link=TO_CONTAINER),
                Column("Value #A", "Judged", "bytes"),
                Column("Value #C", "Misplaced", "bytes"),
                Column("Value #D", "Remote", "percentunit", decimals=1),
                Column("remote", "Remote is"),
            ),
            sort="Judged",
        ),
    ),
    height=9,
)

_USE = Section(
    "Memory and CPU time",
    (
        Lines(
            title="Free memory by NUMA node",
            description="Each line is the free memory of a NUMA node as a share of all that it has. A node near 0 "
            "makes the kernel place pages elsewhere.",
            empty=_NO_AGENT,
            queries=[Query(f"sum by (numa_node) ({_FREE}) / sum by (numa_node) ({_TOTAL})", "node {{numa_node}}")],
            unit="percentunit",
            minimum=0,
            maximum=1,
            width=8,
        ),
        Table(
            title="Memory of each NUMA node by type",
            description="The table shows the memory of each NUMA node by type, by the node's own count. The kernel "
            "does not account for what is left of the total.",
            empty=_NO_AGENT,
            queries=[
                Query(f"sum by (numa_node) ({_TOTAL})", now=True),
                *(Query(f"sum by (numa_node) ({_of('node_memory_bytes', type=kind)})", now=True) for kind in _TYPES),
            ],
            columns=(
                Column("numa_node", "NUMA node"),
                Column("Value #A", "total", "bytes"),
                *(Column(f"Value #{chr(ord('B') + at)}", kind, "bytes") for at, kind in enumerate(_TYPES)),
            ),
            width=16,
        ),
        Lines(
            title="CPU time by NUMA node",
            description="Containers kept this number of CPUs of each NUMA node busy, including containers that came "
            "and went between two ticks.",
            empty="No CPU time is measured; see Unavailable features on Agents",
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
            description="NUMA balancing samples memory that is used. These are its samples per second, by whether "
            "the page was on the CPU's own node. Many remote ones mean that memory is used from other nodes. Pages "
            "with a memory policy are never sampled.",
            empty=_NO_AGENT,
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
            description="Tasks of containers moved this many bytes per second between NUMA nodes, by the kernel's "
            "reason: numa_misplaced is NUMA balancing, and syscall_or_cpuset and mempolicy_mbind are what somebody "
            "asked for.",
            empty="No migration was counted, or the probe is off",
            queries=[Query(f"sum by (reason) ({_rate('container_migrated_bytes_total')})", "{{reason}}")],
            unit="Bps",
            minimum=0,
        ),
        Lines(
            title="Memory given to CPUs of other nodes",
            description="This many bytes per second were given on a NUMA node to a program that ran on another one "
            "(other_node). They are remote from their first use on.",
            empty=_NO_AGENT,
            queries=[
                Query(
                    f"sum by (numa_node) ({_rate('node_numastat_locality_bytes_total', event='other_node')})",
                    "on node {{numa_node}}",
                )
            ],
            unit="Bps",
            minimum=0,
        ),
    ),
)

_PROMISES = Section(
    "Promises and the kubelet",
    (
        Stat(
            title="Largest container that fits",
            description="The Memory Manager would admit a request for this much memory now, on 1, 2 or more NUMA "
            "nodes. CPUs and devices may allow less.",
            empty=_NO_KUBELET,
            queries=[
                Query(
                    f"max by (width) ({_of('memory_manager_admissible_bytes')})",
                    "on {{width}}",
                    now=True,
                )
            ],
            unit="bytes",
            width=8,
        ),
        Lines(
            title="Memory to promise, by NUMA node",
            description="The Memory Manager has this much memory free for new promises on each NUMA node.",
            empty=_NO_KUBELET,
            queries=[
                Query(
                    f"sum by (numa_node) ({_of('memory_manager_bytes', type='memory', state='free')})",
                    "node {{numa_node}}",
                )
            ],
            unit="bytes",
            minimum=0,
            width=8,
        ),
        Bars(
            title="Hint outcomes",
            description="The bars count the containers that run by the outcome of the Topology Manager's hints. "
            "docs/findings.md explains each outcome.",
            empty=_NO_KUBELET,
            queries=[Query(f"sum by (outcome) ({_of('container_hint_outcome')})", "{{outcome}}", now=True)],
            width=8,
        ),
        Table(
            title="Policies",
            description="The table shows the kubelet's version and its policies. Without the policy Static of the "
            "Memory Manager nothing is promised.",
            empty="No kubelet's configuration is known",
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
            description="The table says of each of the kubelet's state files whether it is right, and whether the "
            "kubelet would start again with it. `numaudit state verify` says more.",
            empty="No checkpoint of a kubelet is known",
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
        Lines(
            title="Refused pods",
            description="The graph counts the pods that the kubelet refused for NUMA reasons in each of its "
            "intervals, by outcome.",
            empty=_NO_AGENT,
            queries=[
                Query(
                    "sum by (outcome) (increase("
                    + _of("admission_rejections_total", NUMA_REFUSALS)
                    + "[$__rate_interval]))",
                    "{{outcome}}",
                )
            ],
            minimum=0,
        ),
    ),
)

_MORE_MEMORY = Section(
    "More about memory",
    (
        Lines(
            title="Not in any container",
            description="The root cgroup itself has this much memory on each NUMA node.",
            empty=_NO_AGENT,
            queries=[Query(f"sum by (numa_node) ({_of('node_unattributed_bytes')})", "node {{numa_node}}")],
            unit="bytes",
            width=8,
        ),
        Lines(
            title="Error of the accounts",
            description="Each line is the node's own count minus containers and root cgroup, with its sign. The "
            "three are read at slightly different times, so a few MiB are normal.",
            empty=_NO_AGENT,
            queries=[Query(f"sum by (numa_node) ({_of('node_residual_bytes')})", "node {{numa_node}}")],
            unit="bytes",
            width=8,
        ),
        Lines(
            title="Memory given on another node than wanted",
            description="The kernel placed this many bytes per second on a NUMA node although another one was wanted "
            "(numa_miss), because that one had none: the mark of a full node. It stays 0 for memory that a cpuset "
            "puts elsewhere.",
            empty=_NO_AGENT,
            queries=[
                Query(
                    f"sum by (numa_node) ({_rate('node_numastat_bytes_total', event='numa_miss')})",
                    "on node {{numa_node}}",
                )
            ],
            unit="Bps",
            minimum=0,
            width=8,
        ),
        Lines(
            title="Memory without a promise",
            description="Burstable containers, services and others have this much anon and shmem on each NUMA node, "
            "which no promise covers.",
            empty=_NO_KUBELET,
            queries=[
                Query(f"sum by (numa_node) ({_of('memory_manager_unpromised_bytes')})", "node {{numa_node}}"),
            ],
            unit="bytes",
            minimum=0,
            width=8,
        ),
        Lines(
            title="Memory in the way of promises",
            description="This part of the memory without a promise is beyond the system's reservation. It is in "
            "memory that the map has as free (the next container gets less than it was promised) or as reserved (one "
            "that runs may).",
            empty=_NO_KUBELET,
            queries=[
                Query(
                    f"sum by (numa_node, state) ({_of('memory_manager_encroached_bytes')})",
                    "node {{numa_node}}, {{state}}",
                )
            ],
            unit="bytes",
            minimum=0,
            width=8,
        ),
        Table(
            title="Distances",
            description="Each number is the relative memory distance from the NUMA node of the row to that of the "
            "column, by the firmware (SLIT): 10 is local, and 20 is twice as far. Many machines claim 20 or 21 for "
            "every other node.",
            queries=[Query(f"max by (from_numa_node, to_numa_node) ({_of('node_distance')})", now=True)],
            empty="The firmware gives no distances",
            matrix=Matrix("from_numa_node", "to_numa_node", "From node"),
            sort="-From node",
            width=8,
        ),
    ),
    collapsed=True,
)

_MORE_PROMISES = Section(
    "More about promises",
    (
        Lines(
            title="Stranded memory",
            description="This much memory is free, but no container of one NUMA node can get it, because the node is "
            "in a group of several. A container over several nodes caused this fragmentation.",
            empty=_NO_KUBELET,
            queries=[
                Query(
                    f"sum by (numa_node) ({_of('memory_manager_stranded_bytes')})",
                    "node {{numa_node}}",
                )
            ],
            unit="bytes",
            minimum=0,
            width=8,
        ),
        Lines(
            title="Fragmentation",
            description="All free memory together is enough for a certain container. This share of that container is "
            "not admitted on one NUMA node, because no node has as much. At 0, free memory is in one piece.",
            empty=_NO_KUBELET,
            queries=[Query(f"max({_of('memory_manager_fragmentation_ratio')})", "fragmentation")],
            unit="percentunit",
            minimum=0,
            maximum=1,
            width=8,
        ),
        Table(
            title="Groups of NUMA nodes",
            description="The table shows the NUMA nodes with promises, their group, and the number of promises. A "
            "node of a group of several takes no container for itself alone.",
            empty="Nothing is promised on any NUMA node",
            queries=[
                Query(f"max by (numa_node, group) ({_of('memory_manager_group')})", now=True),
                Query(f"max by (numa_node) ({_of('memory_manager_assignments')})", now=True),
            ],
            columns=(
                Column("numa_node", "NUMA node"),
                Column("group", "Group"),
                Column("Value #B", "Promises"),
            ),
            width=8,
        ),
        Table(
            title="Memory Manager's map",
            description="The table shows the memory map of each NUMA node by type: all memory, what the kubelet's "
            "settings reserve for the system, what is promised to containers, and what is free.",
            empty=_NO_KUBELET,
            queries=[
                Query(f"sum by (numa_node, type) ({_of('memory_manager_total_bytes')})", now=True),
                Query(f"sum by (numa_node, type) ({_of('memory_manager_system_reserved_bytes')})", now=True),
                Query(f"sum by (numa_node, type) ({_of('memory_manager_bytes', state='reserved')})", now=True),
                Query(f"sum by (numa_node, type) ({_of('memory_manager_bytes', state='free')})", now=True),
            ],
            columns=(
                Column("numa_node", "NUMA node"),
                Column("type", "Type"),
                Column("Value #A", "Total", "bytes"),
                Column("Value #B", "System", "bytes"),
                Column("Value #C", "Promised", "bytes"),
                Column("Value #D", "Free", "bytes"),
            ),
            sort="Total",
            width=12,
        ),
        Table(
            title="Problems of checkpoints",
            description="These are the problems of the state files and of the configuration. docs/state.md explains "
            "each reason.",
            empty="No problem of a checkpoint is known",
            queries=[Query(f"max by (file, reason) ({_of('state_problem_info')})", now=True)],
            columns=(Column("file", "File"), Column("reason", "Reason")),
        ),
        Stat(
            title="Pods a restart would refuse",
            description="The kubelet would not admit this number of its running pods again after a restart of "
            "itself, and after a reboot. `numaudit forecast` names them.",
            empty="Not known",
            queries=[
                Query(
                    f"max({_of('restart_refused_pods', reboot='false')})",
                    "kubelet restart",
                    now=True,
                ),
                Query(f"max({_of('restart_refused_pods', reboot='true')})", "reboot", now=True),
            ],
            warn=1,
        ),
    ),
    collapsed=True,
)

DASHBOARD = Dashboard(
    uid=NODE,
    title="numaudit / Node",
    description="One node: its memory, its traffic between NUMA nodes, and the room it has for promises.",
    variables=ONE_NODE,
    sections=(_FIRST, _CONTAINERS, _USE, _PROMISES, _MORE_MEMORY, _MORE_PROMISES),
    links=(docs("dashboards.md", "About this page"), docs("measuring.md", "What can be measured")),
)
