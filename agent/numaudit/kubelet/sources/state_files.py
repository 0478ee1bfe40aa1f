"""The kubelet's checkpoint files on disk: where they are, reading one, replacing one as a whole.

The kubelet replaces a file by renaming a temporary one over it, so what is read is always a whole
file, old or new. Its temporary files begin with a dot and are left alone.

On a node with a running kubelet nothing here may be written: the files are the kubelet's.

Source: pkg/kubelet/checkpointmanager, pkg/util/filesystem; rename(2), fsync(2).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.file import CLAIMS, CPU, DEVICES, MEMORY, Checkpoint, CheckpointKind
from numaudit.errors import InputError, ParseError, Unavailable
from numaudit.kernel.host import Host, read_bytes
from numaudit.kernel.own_files import replace_file


def paths(host: Host) -> Mapping[CheckpointKind, Path]:
    """Paths of the kubelet's checkpoints, whether it is there or not."""
    return {
        MEMORY: host.kubelet / MEMORY,
        CPU: host.kubelet / CPU,
        DEVICES: host.kubelet / "device-plugins" / DEVICES,
        CLAIMS: host.kubelet / CLAIMS,
    }


def read(path: Path) -> bytes | None:
    """The file as it is; None = there is none. Raises Unavailable when it may not or cannot be read."""
    try:
        return read_bytes(path)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise Unavailable(f"cannot read {path}: only root may read it; run as root") from None
    except OSError as error:
        raise Unavailable(f"cannot read {path}: {error.strerror or error}") from None


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file. Whenever the process or the machine dies, the old file or the new one is there.

    Raises InputError when the file that is there is corrupt, because nobody could examine it any
    more; Unavailable when the disk refuses, in which case the old file stays.
    """
    _refuse_corrupt(path, checkpoint)
    try:
        replace_file(path, checkpoints.write(checkpoint))
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}; the file is unchanged") from None


def _refuse_corrupt(path: Path, checkpoint: Checkpoint) -> None:
    data = read(path)
    if data is None:
        return
    try:
        is_valid = checkpoints.verify(checkpoints.parse(checkpoints.kind(checkpoint), data)).is_valid
    except ParseError as error:
        raise InputError(
            f"{path} is not overwritten, because it is corrupt: {error}; examine it, then move it away"
        ) from None
    if not is_valid:
        raise InputError(
            f"{path} is not overwritten, because its checksum is wrong; examine it with "
            f"`numaudit state verify {path}`, then move it away"
        )
