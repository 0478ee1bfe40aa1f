"""A capture of another host over ssh. Nothing is installed there: its Python runs the collector."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import IO

from numaudit.api import document
from numaudit.capture import devices, tree
from numaudit.capture.archive import SUFFIX, unpacked
from numaudit.capture.new_folder import new_file, temporary_folder
from numaudit.capture.tree import NOT_READ, CaptureSummary, Unread
from numaudit.encoding.value import Origin
from numaudit.errors import InputError, Unavailable, printable
from numaudit.kernel import earlier, host_settings
from numaudit.kernel.origin import NOTE
from numaudit.kubelet.sources.process import USUAL_FILES
from numaudit.memorymanager.configuration import KNOWN_FLAGS

_SETTINGS = (*host_settings.PATTERNS, f"proc/{host_settings.COMMAND_LINE}", host_settings.ACPI_TABLES)
_DEVICES = ("sys/bus/pci/devices/*/class", "sys/bus/pci/devices/*/numa_node", "sys/bus/pci/devices/*/msi_irqs/*",
    "proc/irq/[0-9]*/effective_affinity_list", "proc/irq/[0-9]*/smp_affinity_list", "proc/interrupts")  # fmt: skip
_LARGEST = 512 << 20
"""Bytes of the archive."""
_CHUNK = 1 << 20
_SSH_FAILED, _NO_COMMAND = 255, 127
_LEFT_OUT = Unread("numaudit/", "the kubelet's answers and what processes have open are not asked for over ssh")


def capture_from(host: str, target: Path, seconds: float = 0.0) -> CaptureSummary:
    """Write the archive of `host` (as ssh takes it, USER@HOST). `seconds`: time between two readings; 0 = one.

    Raises InputError and Unavailable.
    """
    if host.startswith("-") or not host.strip():
        raise InputError(f"--from {host!r}: give a host as ssh takes it, such as root@server")
    if not target.name.endswith(SUFFIX):
        raise InputError(f"{target}: with --from give a name that ends in {SUFFIX}")
    tree.refuse(target)
    with temporary_folder() as folder:
        archive = folder / f"capture{SUFFIX}"
        with archive.open("wb") as file:
            _run(host, program(seconds), file)
        summary = _checked(host, archive)
        try:
            with new_file(target) as whole, archive.open("rb") as file:
                shutil.copyfileobj(file, whole, _CHUNK)
        except OSError as error:
            raise Unavailable(f"cannot write {target}: {error.strerror}") from error
    return summary


def program(seconds: float = 0.0) -> bytes:
    """The collector with what it is to read."""
    header = json.loads(document.encode("Capture", document.Capture(), Origin(None, None)))
    request = {
        "files": [*tree.PATTERNS, *devices.PATTERNS, *_SETTINGS, "proc/cpuinfo", *_DEVICES, *_of_the_kubelet()],
        "cgroup": tree.CGROUP,
        "kubelet": USUAL_FILES,
        "flags": sorted(KNOWN_FLAGS),
        "words": host_settings.PARAMETERS.pattern,
        "counters": earlier.COUNTERS,
        "earlier": earlier.FOLDER,
        "seconds": seconds,
        "header": header,
        "note": NOTE,
        "unread": NOT_READ,
    }
    collector = Path(__file__).with_name("collector.py").read_text(encoding="utf-8")
    return f"import json\nREQUEST = json.loads({json.dumps(request)!r})\n{collector}".encode()


def _of_the_kubelet() -> list[str]:
    return [f"var/lib/kubelet/{name}" for name in tree.KUBELET]


def _run(host: str, collector: bytes, into: IO[bytes]) -> None:
    try:
        ssh = subprocess.Popen(["ssh", "--", host, "exec python3 -"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise Unavailable(f"cannot run ssh: {error.strerror}; install OpenSSH's client") from error
    with ssh:
        assert ssh.stdin is not None and ssh.stdout is not None
        try:
            ssh.stdin.write(collector)
            ssh.stdin.close()
        except BrokenPipeError:
            pass  # it says why by its end
        size = 0
        while part := ssh.stdout.read(_CHUNK):
            size += into.write(part)
            if size > _LARGEST:
                ssh.kill()
                raise Unavailable(f"{host} sends more than {_LARGEST >> 20} MiB, which no capture has")
    if ssh.returncode == _SSH_FAILED:
        raise Unavailable(f"ssh cannot reach {host}, or may not log in; `ssh {host} true` shows why")
    if ssh.returncode == _NO_COMMAND:
        raise Unavailable(f"{host} has no python3; install it there, or run `numaudit capture` on the host")
    if ssh.returncode:
        raise Unavailable(f"the collector on {host} ended with {ssh.returncode}; what it printed is above")


def _checked(host: str, archive: Path) -> CaptureSummary:
    """What is in it; another host is not trusted to have sent a capture."""
    try:
        with unpacked(archive) as root:
            lines = (root / NOT_READ).read_text(encoding="utf-8", errors="replace").splitlines()
            files = [Path(folder, name) for folder, _, names in os.walk(root) for name in names]
            size = sum(file.lstat().st_size for file in files)
    except (InputError, OSError) as error:
        reason = printable(str(error).removeprefix(f"--root {archive}: "))
        raise Unavailable(
            f"what {host} sent is no capture: it {reason}; a login script there must print nothing: `ssh {host} true` "
            "shows what one prints"
        ) from None
    unread = [Unread(what, reason) for what, _, reason in (line.partition(": ") for line in lines)]
    return CaptureSummary(len(files), size, [*unread, _LEFT_OUT])
