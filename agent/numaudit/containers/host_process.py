"""Proof that a process is the host's own: root's, in init's namespaces and under its root, in no container.

A process chooses its name, its command line and its environment. What is judged here the kernel alone writes, and
every user may read it, so an agent without capabilities judges as root does; /proc/PID/exe is judged where it may be
read (PTRACE_MODE_READ_FSCREDS).

Source: proc_pid_status(5), proc_pid_mountinfo(5), fs/proc/array.c (Uid, NSpid), fs/proc_namespace.c (show_mountinfo),
kernel/user_namespace.c (uid_map), kernel/cgroup/cgroup.c (paths are relative to the reader's cgroup namespace),
kernel/audit.c (loginuid).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import partial

from msgspec import Struct

from numaudit.containers.cgroup_path import parse
from numaudit.kernel import files
from numaudit.kernel.host import Host, read_bytes

INIT = 1
_UIDS = re.compile(rb"^Uid:\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*$", re.MULTILINE)
_IDS = re.compile(rb"^NSpid:\s*(.*)$", re.MULTILINE)
_ROOT_MOUNT = re.compile(rb"^(\d+) \d+ \S+ \S+ / ", re.MULTILINE)
_NO_LOGIN = (b"4294967295", b"0")
"""Nobody, and root, logged in before the process began."""
_PARENTS = re.compile(
    r"(?:.+-)?kubepods(?:-.+)?(?:\.slice)?|machine(?:\.slice)?|docker|libpod_parent|lxc(?:\..+)?|k8s\.io"
)
"""Groups that only containers and virtual machines are below."""


class _Facts(Struct, frozen=True):
    """The kernel's files about one process. None = it could not be read."""

    status: bytes | None
    cgroup: bytes | None
    mountinfo: bytes | None
    uid_map: bytes | None


def why_not_the_hosts(host: Host, pid: int, group: str | None = None) -> str | None:
    """Reason why the process is not known to be one of the host's own; None = it is.

    `group`: the cgroup that an administrator named as this process's. Only root of the host puts a process there, so
    it may have a root, a mount namespace and a container of its own. A captured tree is judged by those of the files
    that it holds; on the running host a file that cannot be read proves nothing.
    """
    init, one = _facts(host, INIT), _facts(host, pid)
    rules = dict(_RULES)
    if group is not None:
        rules = {"status": _status, "uid_map": _uid_map, "cgroup": partial(_other_group, group)}
    for name, judge in rules.items():
        ours, theirs = getattr(init, name), getattr(one, name)
        if ours is not None and theirs is not None:
            reason = judge(ours, theirs)
        else:
            missing = pid if theirs is None else INIT
            reason = f"/proc/{missing}/{name} cannot be read, so that is not known" if host.is_live else None
        if reason is not None:
            return reason
    return _executable(host, pid) if host.is_live and group is None else None


def _facts(host: Host, pid: int) -> _Facts:
    return _Facts(**{name: _read(host, pid, name) for name in _Facts.__struct_fields__})


def _read(host: Host, pid: int, name: str) -> bytes | None:
    try:
        return read_bytes(f"{host.proc}/{pid}/{name}")
    except OSError:
        return None


def _status(init: bytes, one: bytes) -> str | None:
    """All four ids, for a set-user-ID program keeps its caller's real one."""
    uids = _UIDS.search(one)
    if uids is None:
        return "its user is not known"
    other = next((uid for uid in uids.groups() if int(uid)), None)
    if other is not None:
        return f"it runs as user {other.decode()}, not as root"
    ids = [_IDS.search(text) for text in (init, one)]
    if any(found is None or len(found[1].split()) != 1 for found in ids):
        return "it is in a PID namespace of its own"
    return None


def _mountinfo(init: bytes, one: bytes) -> str | None:
    """A mount belongs to one namespace, its id is unique while it is mounted, and init's root always is."""
    ours = set(_ROOT_MOUNT.findall(init))
    return None if ours & set(_ROOT_MOUNT.findall(one)) else "it has another root, or a mount namespace of its own"


def _uid_map(init: bytes, one: bytes) -> str | None:
    return None if init.split() == one.split() else "it is in a user namespace of its own"


def _cgroup(init: bytes, one: bytes) -> str | None:
    """By each hierarchy of cgroup v1, and the one of v2."""
    ours, theirs = _containers(init), _containers(one)
    if ours.keys() == theirs.keys() and all(ours[key] == theirs[key] for key in ours):
        return None
    return "it is in a container's cgroup"


def _paths(text: bytes) -> Iterator[tuple[str, str]]:
    """Hierarchy and path of each line."""
    for line in os.fsdecode(text).splitlines():
        hierarchy, _, rest = line.partition(":")
        yield hierarchy, rest.partition(":")[2]


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _containers(text: bytes) -> dict[str, tuple[str, ...]]:
    """Hierarchy -> the beginning of the path that is a container's; empty = none.

    Read in a container, a path may begin with `..` for each level up to the host's root. One with fewer of these than
    init's shares a group with the reader's container.
    """
    found: dict[str, tuple[str, ...]] = {}
    for hierarchy, path in _paths(text):
        names = _names(path)
        inside = (at for at, name in enumerate(names, 1) if name == ".." or _is_container(names[:at]))
        found[hierarchy] = tuple(names[: max(inside, default=0)])
    return found


def _other_group(group: str, init: bytes, one: bytes) -> str | None:
    """By every hierarchy that has the process below its root."""
    up = max((_names(path).count("..") for _, path in _paths(init)), default=0)
    wanted = [".."] * up + _names(group)
    below = [names for _, path in _paths(one) if len(names := _names(path)) > up]
    return None if below and all(names == wanted for names in below) else f"its cgroup is not {group}"


def _is_container(names: list[str]) -> bool:
    return bool(_PARENTS.fullmatch(names[-1])) or parse("/".join(names)).kind in ("container", "pod")


def _executable(host: Host, pid: int) -> str | None:
    """A command of root's that users may run (sudo) has their words; its executable says that it is no kubelet."""
    exe = f"{host.proc}/{pid}/exe"
    try:
        link = files.link_target(exe)
    except PermissionError:
        login = (_read(host, pid, "loginuid") or _NO_LOGIN[0]).strip()
        return None if login in _NO_LOGIN else f"user {login.decode('ascii', 'replace')} logged in and started it"
    except OSError:
        return "it has no executable"
    if "kube" not in link.rpartition("/")[2]:
        return f"its executable is {link}"
    try:
        descriptor = files.open_namespace(exe)
    except PermissionError:
        return None
    except OSError:
        return f"its executable is not the host's {link}"
    try:
        own = files.status(host.at(link) if host.is_mounted else f"{host.proc}/{INIT}/root{link}")
        return None if os.path.samestat(own, os.fstat(descriptor)) else f"its executable is not the host's {link}"
    except PermissionError:
        return None
    except OSError:
        return f"its executable is not the host's {link}"
    finally:
        os.close(descriptor)


_RULES: dict[str, Callable[[bytes, bytes], str | None]] = {
    "status": _status,
    "uid_map": _uid_map,
    "mountinfo": _mountinfo,
    "cgroup": _cgroup,
}
"""File -> the reason why it tells a process from the host's own: init's content, that of the process."""
