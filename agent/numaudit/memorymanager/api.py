"""The functions of this package that other code may rely on; docs/memorymanager.md lists them.

They live in their modules. This one only names them together, and is imported by whoever needs all:
the package itself imports nothing, because the agent needs a small part only. `x as x` tells a
reader and a type checker that a name is passed on.
"""

from numaudit.checkpoints.formats import file as _checkpoint_file
from numaudit.checkpoints.formats.cpu import CpuCheckpoint as CpuCheckpoint
from numaudit.checkpoints.formats.device import DeviceCheckpoint as DeviceCheckpoint
from numaudit.checkpoints.formats.memory import MemoryCheckpoint as MemoryCheckpoint
from numaudit.checkpoints.start.restore import (
    cpu_start_error as cpu_start_error,
    memory_start_error as memory_start_error,
)
from numaudit.containermanager.memory.replay import (
    Difference as Difference,
    MissingTarget as MissingTarget,
    Refusal as Refusal,
    check_start as check_start,
    differences as differences,
    replay as replay,
)
from numaudit.containermanager.pod.manifest import read_pod as read_pod
from numaudit.containermanager.pod.requests import (
    container_requests as container_requests,
    pod_requests as pod_requests,
)
from numaudit.containermanager.pod.spec import Container as Container, Pod as Pod, Resources as Resources, qos as qos
from numaudit.containermanager.topologymanager.policy import (
    AdmissionError as AdmissionError,
    KubeletHangs as KubeletHangs,
)
from numaudit.containermanager.versions import KubeletFeatures as KubeletFeatures
from numaudit.memorymanager.admission import (
    Admission as Admission,
    NodeState as NodeState,
    admit as admit,
    reconcile as reconcile,
    remove as remove,
)
from numaudit.memorymanager.kubelet import Kubelet as Kubelet, read_kubelet as read_kubelet
from numaudit.memorymanager.manager import (
    Pins as Pins,
    StartRefused as StartRefused,
    fresh_state as fresh_state,
    restart as restart,
    start as start,
)
from numaudit.memorymanager.outcome import (
    AdmissionOutcome as AdmissionOutcome,
    Decision as Decision,
    Placement as Placement,
    Rejection as Rejection,
)
from numaudit.topology.machine import Cpu as Cpu, HugePages as HugePages, Machine as Machine, Node as Node
from numaudit.topology.nodeset import CpuSet as CpuSet, NodeSet as NodeSet

checkpoint = _checkpoint_file
