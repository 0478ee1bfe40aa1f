"""Every label, with its attribute in OpenTelemetry."""

from __future__ import annotations

from numaudit.exporters.metric import Label
from numaudit.snapshot import RESIDENT_TYPES

LABELS = {
    "namespace": Label("k8s.namespace.name", "Kubernetes namespace; empty for a plain cgroup"),
    "pod": Label("k8s.pod.name", "Pod name; empty for a plain cgroup"),
    "container": Label(
        "k8s.container.name", "Container name; `POD` for a pod's sandbox; the cgroup path for a plain cgroup"
    ),
    "workload": Label(
        "numaudit.workload", "Name of the Deployment, StatefulSet, Job, ... that owns the pod; else the pod's own name"
    ),
    "pod_uid": Label("k8s.pod.uid", "Pod UID"),
    "container_id": Label("container.id", "Container id of the runtime"),
    "qos": Label("numaudit.qos", "Guaranteed, Burstable or BestEffort"),
    "runtime": Label("container.runtime.name", "Container runtime: containerd, cri-o, docker or podman"),
    "numa_node": Label("numaudit.numa.node.id", "NUMA node", integer=True),
    "cpu_numa_node": Label(
        "numaudit.numa.cpu_node.id",
        "NUMA node of the CPU; `other` is the sum of all pairs but the largest",
        integer=True,
    ),
    "from_numa_node": Label("numaudit.numa.from_node.id", "NUMA node of the CPU", integer=True),
    "to_numa_node": Label("numaudit.numa.to_node.id", "NUMA node of the memory", integer=True),
    "resource": Label("numaudit.resource", "Resource: memory, cpu or device"),
    "type": Label(
        "numaudit.memory.type",
        f"Memory type: {', '.join(RESIDENT_TYPES)}; for nodes also free; for promises memory, hugepages-2Mi, ...",
    ),
    "source": Label(
        "numaudit.source",
        "Source of the figure: pmu (counted accesses), hint_faults (sampled pages) or expected (residence x CPU time)",
    ),
    "access": Label("numaudit.memory.access", "Access: read or write"),
    "locality": Label("numaudit.locality", "Locality: local, remote, or unknown where the page's node is not known"),
    "verdict": Label(
        "numaudit.verdict",
        "Verdict: aligned, split, spilled, drifted, cpu-remote, ...; of ranks in-force, thread-astray, ...",
    ),
    "outcome": Label(
        "numaudit.outcome",
        "Outcome of topology hints (aligned-single, ..., rejected-affinity) or of OTLP pushes (delivered, ...)",
    ),
    "finding": Label("numaudit.finding", "Name of the finding"),
    "file": Label(
        "file.name",
        "Checkpoint: memory_manager_state, cpu_manager_state, kubelet_internal_checkpoint or dra_manager_state; or the "
        "configuration",
    ),
    "memory_manager": Label("numaudit.kubelet.memory_manager", "Memory Manager policy; empty if unknown"),
    "cpu_manager": Label("numaudit.kubelet.cpu_manager", "CPU Manager policy; empty if unknown"),
    "topology_manager": Label("numaudit.kubelet.topology_manager", "Topology Manager policy; empty if unknown"),
    "scope": Label("numaudit.kubelet.scope", "Topology Manager scope, container or pod; empty if unknown"),
    "topology_manager_options": Label(
        "numaudit.kubelet.topology_manager_options", "Topology Manager options, as name=value,..."
    ),
    "cpu_manager_options": Label("numaudit.kubelet.cpu_manager_options", "CPU Manager options, as name=value,..."),
    "feature_gates": Label(
        "numaudit.kubelet.feature_gates", "Feature gates that are set and concern resources, as name=value,..."
    ),
    "kubernetes_version": Label("numaudit.kubelet.version", "The kubelet's version, such as v1.36.2; empty if unknown"),
    "rule": Label("numaudit.setup.rule", "Rule of `numaudit setup`"),
    "level": Label(
        "numaudit.setup.level",
        "Severity of what the rule finds (alerts have a label severity of their own): error or warning",
    ),
    "kernel": Label("numaudit.setup.kernel", "The kernel's release; empty if unknown, as are all labels of this kind"),
    "sockets": Label("numaudit.setup.sockets", "Number of CPU sockets"),
    "numa_balancing": Label("numaudit.setup.numa_balancing", "kernel.numa_balancing"),
    "transparent_hugepage": Label("numaudit.setup.transparent_hugepage", "Mode: always, madvise or never"),
    "zone_reclaim": Label("numaudit.setup.zone_reclaim", "vm.zone_reclaim_mode"),
    "kernel_parameters": Label(
        "numaudit.setup.kernel_parameters", "The kernel's parameters about NUMA, memory and CPUs; `none` without any"
    ),
    "event": Label("numaudit.kernel.event", "The kernel's counter: numa_hit, numa_hint_faults, ..."),
    "step": Label("numaudit.overhead.step", "Step in force: page_alloc-off, watch-list, hint_faults-off, ..."),
    "probe": Label("numaudit.probe", "Probe: page_alloc, cpu_time, pmu, hint_faults or migrations"),
    "collector": Label(
        "numaudit.collector",
        "Collector, named after the question that it answers, or source of the kubelet, such as memory-checkpoint",
    ),
    "feature": Label("numaudit.feature", "Feature, named as in `numaudit doctor`"),
    "reason": Label(
        "numaudit.reason",
        "Reason. For lost events: map-full, busy (another BPF program ran) or cpu-away (a CPU came back "
        "online and was not watched yet)",
    ),
    "state": Label(
        "numaudit.memory.state",
        "State of memory: reserved (promised to containers) or free; of CPUs: free, exclusive or system_reserved",
    ),
    "group": Label("numaudit.numa.group", "NUMA nodes of the group, such as 0-1"),
    "width": Label("numaudit.numa.width", "Number of nodes", integer=True),
    "version": Label("numaudit.version", "Version of numaudit"),
    "python": Label("numaudit.python.version", "Version of the Python interpreter"),
    "path": Label("url.path", "URL path that the agent serves, or `other`"),
    "code": Label("http.response.status_code", "HTTP status code", integer=True),
    "latency": Label(
        "numaudit.memory.latency_source",
        "Source of the latency: calibrated (measured here), published (for the CPU family) or ratio (assumed)",
    ),
    "unit": Label("numaudit.memory.access_unit", "Counted unit: lines (cache lines) or loads (load instructions)"),
    "reboot": Label(
        "numaudit.reboot", "Event: true for a reboot of the node, false for a restart of the kubelet alone"
    ),
    "starts": Label(
        "numaudit.restart.starts",
        "Answer whether the kubelet starts: yes, no, at-risk (chance or the next boot decides), once (but not again) "
        "or unknown",
    ),
}
