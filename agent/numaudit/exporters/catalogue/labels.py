"""Every label, and the attribute that stands for it in OpenTelemetry."""

from __future__ import annotations

from numaudit.exporters.metric import Label
from numaudit.snapshot import RESIDENT_TYPES

LABELS = {
    "namespace": Label("k8s.namespace.name", "Kubernetes namespace; empty for a plain cgroup"),
    "pod": Label("k8s.pod.name", "Pod name; empty for a plain cgroup"),
    "container": Label(
        "k8s.container.name", "Container name; `POD` for a pod's sandbox; the cgroup path for a plain cgroup"
    ),
    "workload": Label("numaudit.workload", "Deployment, StatefulSet, Job, ...; a pod of none by its own name"),
    "pod_uid": Label("k8s.pod.uid", "Pod UID"),
    "container_id": Label("container.id", "The runtime's container id"),
    "qos": Label("numaudit.qos", "Guaranteed, Burstable or BestEffort"),
    "runtime": Label("container.runtime.name", "containerd, cri-o, docker or podman"),
    "numa_node": Label("numaudit.numa.node.id", "NUMA node", integer=True),
    "cpu_numa_node": Label(
        "numaudit.numa.cpu_node.id", "NUMA node of the CPU; `other`: pairs added up beside the largest", integer=True
    ),
    "from_numa_node": Label("numaudit.numa.from_node.id", "NUMA node", integer=True),
    "to_numa_node": Label("numaudit.numa.to_node.id", "NUMA node", integer=True),
    "resource": Label("numaudit.resource", "memory, cpu or device"),
    "type": Label(
        "numaudit.memory.type",
        f"One of {', '.join(RESIDENT_TYPES)}; for nodes also free; for promises memory, hugepages-2Mi, ...",
    ),
    "source": Label(
        "numaudit.source", "pmu: counted; hint_faults: of sampled pages; expected: residence x CPU time; first_touch"
    ),
    "locality": Label("numaudit.locality", "local or remote; unknown where the page's node is"),
    "verdict": Label("numaudit.verdict", "aligned, split, spilled, drifted, cpu-remote, ..."),
    "outcome": Label("numaudit.outcome", "Of hints: aligned-single, ..., rejected-affinity. Of OTLP: delivered, ..."),
    "finding": Label("numaudit.finding", "Name of the finding"),
    "file": Label("file.name", "memory_manager_state, cpu_manager_state or kubelet_internal_checkpoint"),
    "memory_manager": Label("numaudit.kubelet.memory_manager", "Policy; empty when it is not known"),
    "cpu_manager": Label("numaudit.kubelet.cpu_manager", "Policy; empty when it is not known"),
    "topology_manager": Label("numaudit.kubelet.topology_manager", "Policy; empty when it is not known"),
    "scope": Label("numaudit.kubelet.scope", "container or pod; empty when it is not known"),
    "topology_manager_options": Label("numaudit.kubelet.topology_manager_options", "name=value,... as a flag has them"),
    "feature_gates": Label("numaudit.kubelet.feature_gates", "Those set that bear on resources; name=value,..."),
    "kubernetes_version": Label("numaudit.kubelet.version", "v1.36.2; empty when it is not known"),
    "event": Label("numaudit.kernel.event", "The kernel's word: numa_hit, numa_hint_faults, ..."),
    "step": Label(
        "numaudit.overhead.step", "Step taken: page_alloc off, watch list, first_touch off, hint_faults off, pmu off"
    ),
    "probe": Label("numaudit.probe", "Which probe: page_alloc, cpu_time, pmu, hint_faults, migrations, first_touch"),
    "collector": Label("numaudit.collector", "Which question was asked"),
    "feature": Label("numaudit.feature", "What may or may not be measurable here, as in `numaudit doctor`"),
    "reason": Label(
        "numaudit.reason",
        "Why. Of lost events: map-full, busy (another BPF program ran), ring-full, no-address, "
        "cpu-away (a CPU that came back was not watched yet)",
    ),
    "state": Label("numaudit.memory.state", "reserved (for containers) or free"),
    "group": Label("numaudit.numa.group", "Nodes of an assignment, such as 0-1"),
    "width": Label("numaudit.numa.width", "Number of nodes", integer=True),
    "version": Label("numaudit.version", "numaudit's version"),
    "python": Label("numaudit.python.version", "The interpreter's version"),
    "path": Label("url.path", "A known path, or `other`"),
    "code": Label("http.response.status_code", "HTTP status", integer=True),
    "latency": Label(
        "numaudit.memory.latency_source", "calibrated (measured here), published (of the CPU family) or ratio (assumed)"
    ),
    "unit": Label("numaudit.memory.access_unit", "What is counted: lines (of the cache) or loads (instructions)"),
    "reboot": Label("numaudit.reboot", "true: of the whole node; false: of the kubelet alone"),
    "starts": Label(
        "numaudit.restart.starts",
        "Does the kubelet start: yes, no, at risk (chance or the next boot decides), once (and not again) or unknown",
    ),
}
