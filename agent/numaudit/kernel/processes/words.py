"""/proc/PID/cmdline and /proc/PID/environ, the beginning of each, and /proc/PID/exe.

The caller drops what it does not know at once.

Source: proc_pid_cmdline(5), proc_pid_environ(5). Everybody may read the command line. For the environment the kernel
asks for the rights of ptrace(2), or for CAP_PERFMON since Linux 6.15; it shows it as it was at execve(2).
"""

from __future__ import annotations

import os
from pathlib import PurePath

from numaudit.kernel import files
from numaudit.kernel.host import Host

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
