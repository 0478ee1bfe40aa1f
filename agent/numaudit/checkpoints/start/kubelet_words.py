"""The kubelet's message when it does not start with a file that was examined.

Source: pkg/kubelet/cm/memorymanager/policy_static.go, state/state_checkpoint.go of both managers.
"""

from __future__ import annotations

from typing import TypedDict

from numaudit.checkpoints.formats.file import CLAIMS, DEVICES, MEMORY, CheckpointKind
from numaudit.checkpoints.formats.seal import SealedCheckpoint
from numaudit.checkpoints.start.outlook import KubeletAtStart, Outlook, pod_level_gate
from numaudit.checkpoints.start.restore import claims_start_error, cpu_start_error, memory_start_error, restore_error
from numaudit.containermanager.versions import KubernetesVersion
from numaudit.errors import ParseError


class _Gates(TypedDict):
    directory: str
    version: KubernetesVersion
    pod_level: bool


def kubelet_says(
    kind: CheckpointKind, data: bytes, outlook: Outlook | None, kubelet: KubeletAtStart, directory: str
) -> str | None:
    """The kubelet's words when it does not start with this file; None = it starts, or they are not known.

    `outlook` None = the file could not be read. `directory` is where the kubelet has the file.
    """
    read = None if outlook is None else outlook.read
    kubelet = kubelet if read is None else kubelet.assumed_for(read)
    if outlook is not None and _is_beyond_us(outlook):
        return None
    as_read = None if outlook is None else outlook.read_as or outlook.verification
    pod_level = bool(kubelet.pod_level) if as_read is None else pod_level_gate(as_read, kubelet)
    policy = kubelet.memory_policy if kind == MEMORY else kubelet.cpu_policy
    gates: _Gates = {"directory": directory, "version": kubelet.version, "pod_level": pod_level}
    try:
        if kind == DEVICES:
            not_restored = None
        elif kind == CLAIMS:
            not_restored = claims_start_error(data) if kubelet.reads_claims else None
        elif isinstance(read, SealedCheckpoint) and as_read is not None:
            not_restored = restore_error(read, as_read, policy=policy, **gates)
        else:
            start_error = memory_start_error if kind == MEMORY else cpu_start_error
            not_restored = start_error(data, policy=policy, **gates)
    except ParseError:
        return None
    if not_restored is not None or outlook is None:
        return not_restored
    if outlook.refusal is not None:
        return outlook.refusal.message
    return next((one.message for one in outlook.findings if one.name == "cpu-state-refused"), None)


def _is_beyond_us(outlook: Outlook) -> bool:
    stops = {finding.stops for finding in outlook.findings}
    return "unknown" in stops and "start" not in stops
