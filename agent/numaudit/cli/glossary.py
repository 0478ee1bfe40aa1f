"""The words of the reports: for `numaudit help glossary` and docs/glossary.md."""

from __future__ import annotations

GLOSSARY = {
    "node": "A NUMA node: memory, and the CPUs near it. A list of nodes is written as 0-1,3. A machine of a cluster "
    "is called a host, or a Kubernetes node.",
    "container": "A Kubernetes container. On a host without Kubernetes, a systemd unit or a cgroup.",
    "promised": "Memory, CPUs and nodes that the kubelet's static managers, or `numaudit run`, gave to a container.",
    "allowed": "Nodes and CPUs that the container may use, according to the cpuset of its cgroup.",
    "resident": "Memory that is present in RAM, by the node that it is on.",
    "accessed": "Memory accesses, as the processor counts them.",
    "used remotely": "Memory that NUMA balancing saw used by a CPU of another node: which pages, not how often.",
    "remote": "Memory on another node than the CPU's. In a report: on nodes whose CPUs the container may not use.",
    "judged bytes": "Anonymous memory, shared memory and huge pages. Only these decide verdicts, not the page cache.",
    "verdict": "The one conclusion about a container, such as aligned or spilled.",
    "finding": "A problem in addition to the verdict, such as oom-risk. A container or a host may have several.",
    "group": "Nodes that the Memory Manager uses together, for containers that need more than one node.",
    "hint fault": "A page fault that NUMA balancing provokes, to learn which CPU uses a page.",
    "scan pass": "One walk of NUMA balancing through a process's memory. The scan period is the time between steps.",
    "tick": "One reading of everything. The agent makes one every 15 seconds.",
}
"""Word -> meaning. Fifteen words at most."""
