"""The checkpoint files of the kubelet's managers, whichever one it is.

The formats are in `memory`, `cpu`, `device` and `claims` of this package, the checksum of the first three is in
`encoding.checksum`.

Source: pkg/kubelet/checkpointmanager, pkg/kubelet/cm/{memorymanager,cpumanager,devicemanager,dra}.
"""

from __future__ import annotations

from typing import Literal

from numaudit.checkpoints.formats import claims as claim_checkpoint
from numaudit.checkpoints.formats import cpu as cpu_checkpoint
from numaudit.checkpoints.formats import device as device_checkpoint
from numaudit.checkpoints.formats import memory as memory_checkpoint
from numaudit.checkpoints.formats import seal
from numaudit.checkpoints.formats.claims import ClaimCheckpoint
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.device import DeviceCheckpoint
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.checkpoints.formats.seal import SealedCheckpoint
from numaudit.encoding.checksum import Verification
from numaudit.encoding.go_syntax import load
from numaudit.errors import ParseError

CheckpointKind = Literal[
    "memory_manager_state", "cpu_manager_state", "kubelet_internal_checkpoint", "dra_manager_state"
]
"""The files' names under the kubelet's root (that of devices in `device-plugins`)."""

Checkpoint = MemoryCheckpoint | CpuCheckpoint | DeviceCheckpoint | ClaimCheckpoint

MEMORY: CheckpointKind = "memory_manager_state"
CPU: CheckpointKind = "cpu_manager_state"
DEVICES: CheckpointKind = "kubelet_internal_checkpoint"
CLAIMS: CheckpointKind = "dra_manager_state"

_KEY_OF_KIND: dict[str, CheckpointKind] = {
    "machinestate": MEMORY,
    "defaultcpuset": CPU,
    "claiminfostatelist": CLAIMS,
    "data": DEVICES,
}
"""Key -> kind, the most telling first: the text `data` of a memory or CPU checkpoint is no `Data` of devices.
The content of a checkpoint of claims is within a text as well."""


def kind_of(name: str, data: bytes) -> CheckpointKind:
    """Return the kind of a checkpoint, by the file's name, else by its keys. Raises ParseError when neither decides."""
    for kind in (MEMORY, CPU, DEVICES, CLAIMS):
        if name == kind:
            return kind
    document = load(data)
    found = _kind_by_keys(document)
    if found is None:
        raise ParseError("not a checkpoint: it has none of the keys machineState, defaultCpuSet and Data")
    return found


def _kind_by_keys(document: object) -> CheckpointKind | None:
    values = {key.casefold(): value for key, value in document.items()} if isinstance(document, dict) else {}
    for key, kind in _KEY_OF_KIND.items():
        if key in values and not (kind == DEVICES and isinstance(values[key], str)):
            return kind
    data = values.get("data")
    return _kind_by_keys(load(data.encode())) if isinstance(data, str) else None


def kind(checkpoint: Checkpoint) -> CheckpointKind:
    """The name of the file that holds such a checkpoint."""
    if isinstance(checkpoint, MemoryCheckpoint):
        return MEMORY
    if isinstance(checkpoint, ClaimCheckpoint):
        return CLAIMS
    return CPU if isinstance(checkpoint, CpuCheckpoint) else DEVICES


def parse(kind: CheckpointKind, data: bytes) -> Checkpoint:
    """Read a checkpoint. Raises ParseError naming the path of what is wrong."""
    if kind == MEMORY:
        return memory_checkpoint.parse(data)
    if kind == CPU:
        return cpu_checkpoint.parse(data)
    if kind == CLAIMS:
        return claim_checkpoint.parse(data)
    return device_checkpoint.parse(data)


def write(checkpoint: Checkpoint) -> bytes:
    """The file as the kubelet writes it. Stored checksums are written as they are."""
    if isinstance(checkpoint, DeviceCheckpoint):
        return device_checkpoint.write(checkpoint)
    if isinstance(checkpoint, ClaimCheckpoint):
        return claim_checkpoint.write(checkpoint)
    return seal.write(checkpoint)


def plain_content(checkpoint: Checkpoint) -> dict[str, object]:
    """The content in the words of its file: of V3 and V4 that of `data`, as if it stood in the file itself."""
    if isinstance(checkpoint, DeviceCheckpoint):
        return device_checkpoint.plain_content(checkpoint)
    if isinstance(checkpoint, ClaimCheckpoint):
        return claim_checkpoint.plain_content(checkpoint)
    return seal.plain_content(checkpoint)


def newer_format(checkpoint: Checkpoint, verification: Verification) -> str | None:
    """Reason why a file that does not verify seems to be a newer kubelet's; None = it does not."""
    if verification.is_valid or not isinstance(checkpoint, SealedCheckpoint):
        return None
    if checkpoint.seal is not None and checkpoint.seal.is_foreign:
        return f"{checkpoint.seal.problem}, though dataChecksum fits"
    keys = [path for path in checkpoint.unknown if "." not in path]
    return f"no known checksum fits, and there are keys unknown here: {', '.join(keys[:3])}" if keys else None


def verify(checkpoint: Checkpoint) -> Verification:
    """Does the stored checksum fit, and by which format?"""
    if isinstance(checkpoint, MemoryCheckpoint):
        return memory_checkpoint.verify(checkpoint)
    if isinstance(checkpoint, CpuCheckpoint):
        return cpu_checkpoint.verify(checkpoint)
    if isinstance(checkpoint, ClaimCheckpoint):
        return claim_checkpoint.verify(checkpoint)
    return device_checkpoint.verify(checkpoint)
