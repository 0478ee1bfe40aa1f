"""Words that processes and containers were started with: the beginning of /proc/PID/cmdline and /proc/PID/environ, and
/proc/PID/exe; systemd's units, and the runtime's config.json.

The caller drops what it does not know at once.

Source: proc_pid_cmdline(5), proc_pid_environ(5). Everybody may read the command line. For the environment the kernel
asks for the rights of ptrace(2), or for CAP_PERFMON since Linux 6.15; it shows it as it was at execve(2).
systemd.unit(5), "Unit File Load Path"; runc's bundle below /run/containerd, CRI-O's below /run/containers.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePath

from numaudit.errors import ParseError
from numaudit.kernel import files
from numaudit.kernel.host import Host, read_bytes
from numaudit.ranks.launchers import units

_MOST = 256 << 10
"""Bytes. Command lines of virtual machines and of Java have some tens of KiB."""


def command_line(host: Host, pid: int) -> bytes:
    """Raises OSError when the process has ended."""
    return _beginning(f"{host.proc}/{pid}/cmdline")


def environment(host: Host, pid: int) -> bytes:
    """Raises OSError when the process has ended, or its environment may not be read."""
    return _beginning(f"{host.proc}/{pid}/environ")


def program(host: Host, pid: int) -> str | None:
    """Name of the file that it runs; None = it may not be seen, as the environment, or there is none."""
    try:
        return PurePath(files.link_target(f"{host.proc}/{pid}/exe")).name.removesuffix(" (deleted)")
    except OSError:
        return None


def _beginning(file: str) -> bytes:
    """Up to a limit, for the process may make it as long as it likes; the word that the limit cuts is left out."""
    descriptor = files.open_file(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        text = b""
        while len(text) < _MOST and (chunk := os.read(descriptor, _MOST - len(text))):
            text += chunk
    except OSError as error:
        error.filename = file
        raise
    finally:
        os.close(descriptor)
    return text if len(text) < _MOST else text.rpartition(b"\0")[0]


_UNIT_FOLDERS = (
    "etc/systemd/system.control",
    "run/systemd/system.control",
    "run/systemd/transient",
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
)
"""The first file of a name counts."""
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,255}\.service", re.ASCII)
_ID = re.compile(r"[0-9a-f]{64}", re.ASCII)
_BUNDLES = (
    "run/containerd/io.containerd.runtime.v2.task/k8s.io/{}/config.json",
    "run/containerd/io.containerd.runtime.v2.task/moby/{}/config.json",
    "run/containers/storage/overlay-containers/{}/userdata/config.json",
    "var/lib/containers/storage/overlay-containers/{}/userdata/config.json",
)
_LONGEST_UNIT, _LONGEST_CONFIG = 256 << 10, 4 << 20


def unit_settings(host: Host, name: str) -> dict[str, str]:
    """The settings of a service and its drop-ins that place it; empty = none, or its files are not to be seen."""
    if not _UNIT.fullmatch(name):
        return {}
    template = re.sub(r"@.*\.service$", "@.service", name)
    texts: list[str] = []
    for file in (f"{folder}/{one}" for one in dict.fromkeys((name, template)) for folder in _UNIT_FOLDERS):
        text = _text(host, file)
        if text is not None:
            texts.append(text)
            break
    drop_ins: dict[str, str] = {}
    for folder in _UNIT_FOLDERS:
        try:
            found = files.glob(host.root / folder / f"{name}.d", "*.conf")
        except OSError:
            continue
        for one in found:
            text = _text(host, f"{folder}/{name}.d/{one.name}")
            if text is not None:
                drop_ins.setdefault(one.name, text)
    return units.settings_in([*texts, *(drop_ins[one] for one in sorted(drop_ins))])


def runtime_policy(host: Host, container_id: str) -> dict[str, str]:
    """linux.memoryPolicy of a container; empty = none, or its configuration is not to be seen."""
    if not _ID.fullmatch(container_id):
        return {}
    for pattern in _BUNDLES:
        try:
            return units.memory_policy_in(read_bytes(host.root / pattern.format(container_id), _LONGEST_CONFIG))
        except (OSError, ParseError):
            continue
    return {}


def _text(host: Host, file: str) -> str | None:
    try:
        return read_bytes(host.root / file, _LONGEST_UNIT).decode("utf-8", "replace")
    except OSError:
        return None
