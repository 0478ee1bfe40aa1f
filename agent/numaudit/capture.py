"""Copies what the readers read into a tree that --root understands."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from numaudit.errors import InputError, Unavailable
from numaudit.kernel.cgroup import Hierarchies, escape, find_hierarchies, read_inodes, walk
from numaudit.kernel.host import Host, read_bytes
from numaudit.kubelet import process as kubelet_process
from numaudit.kubelet import recording

_ARCHIVE = ".tar.xz"
_OTHER_ARCHIVES = (".bz2", ".gz", ".tar", ".tgz", ".txz", ".xz", ".zip", ".zst")
_PROC = ("mounts", "version", "vmstat", "meminfo", "sys/kernel/numa_balancing", "self/mountinfo")
_PROCESS = ("cgroup", "comm", "mountinfo", "numa_maps", "stat", "status")
_NODE = ("meminfo", "numastat", "distance", "cpulist", "hugepages/*/*")
_NODES = ("online", "possible", "has_cpu", "has_memory")
_CPU = ("topology/*", "cache/index*/level", "cache/index*/id", "cache/index*/shared_cpu_list")
_CGROUP = ("cgroup.procs", "cgroup.controllers", "memory.numa_stat", "memory.current", "memory.stat", "memory.events",
    "memory.usage_in_bytes", "cpuset.*", "hugetlb.*.numa_stat", "hugetlb.*.current")  # fmt: skip
_KUBELET = ("memory_manager_state", "cpu_manager_state", "device-plugins/kubelet_internal_checkpoint")


@dataclass(slots=True)
class Summary:
    """What was copied; files that vanished or may not be read are skipped and counted."""

    files: int = 0
    bytes: int = 0
    skipped: int = 0


def capture(host: Host, target: Path) -> Summary:
    """Copy to a new or empty folder, or into a new .tar.xz file. Raises InputError, Unavailable, OSError."""
    try:
        _refuse(target)
    except OSError as error:
        raise Unavailable(f"cannot write {target}: {error.strerror}") from error
    if not target.name.endswith(_ARCHIVE):
        return _into(host, target)
    with tempfile.TemporaryDirectory(prefix="numaudit-capture-") as folder:
        tree = Path(folder) / target.name.removesuffix(_ARCHIVE)
        summary = _into(host, tree)
        _pack(tree, target)
    return summary


def _refuse(target: Path) -> None:
    """Raises InputError when something is there already, or the name is that of another kind of archive."""
    if target.name.endswith(_ARCHIVE):
        if target.exists():
            raise InputError(f"{target} exists already; give another name or remove it")
    elif target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} is not an empty folder; give a new one, or a name that ends in {_ARCHIVE}")
    elif target.suffix in _OTHER_ARCHIVES:
        raise InputError(f"{target}: numaudit writes folders and {_ARCHIVE} files; give a name that ends in {_ARCHIVE}")


def _into(host: Host, tree: Path) -> Summary:
    summary = Summary()
    host = kubelet_process.with_its_folder(host)
    try:
        tree.mkdir(parents=True, exist_ok=True)
        for file in _files(host):
            _copy(host, file, tree, summary)
        _copy_cgroups(host, tree, summary)
        for folder in _pod_log_folders(host):
            _at(host, folder, tree).mkdir(parents=True, exist_ok=True)
        _record(host, tree, summary)
    except OSError as error:
        raise Unavailable(f"cannot write {error.filename or tree}: {error.strerror}") from error
    return summary


def _files(host: Host) -> Iterator[Path]:
    yield from (host.proc / name for name in _PROC)
    for process in sorted(host.proc.glob("[0-9]*")):
        yield from (process / name for name in _PROCESS)
    yield from (host.nodes / name for name in _NODES)
    for node in sorted(host.nodes.glob("node[0-9]*")):
        for pattern in _NODE:
            yield from sorted(node.glob(pattern))
    yield host.cpus / "online"
    for cpu in sorted(host.cpus.glob("cpu[0-9]*")):
        for pattern in _CPU:
            yield from sorted(cpu.glob(pattern))
    yield from (host.kubelet / name for name in _KUBELET)


def _copy_cgroups(host: Host, tree: Path, summary: Summary) -> None:
    hierarchies = find_hierarchies(host)
    inodes = read_inodes(host)
    for root in _roots(hierarchies):
        for group in walk(replace(hierarchies, memory=root), inodes):
            folder = Path(f"{root}{group.path}")
            _at(host, folder, tree).mkdir(parents=True, exist_ok=True)
            for pattern in _CGROUP:
                for file in sorted(folder.glob(pattern)):
                    _copy(host, file, tree, summary)
    lines = []
    for group in walk(hierarchies, inodes):
        absolute = "/" + str(Path(f"{hierarchies.memory}{group.path}").relative_to(host.root))
        lines.append(f"{group.id} {escape(absolute)}\n")
    (tree / "cgroup-inodes.txt").write_text("".join(lines), encoding="utf-8", errors="surrogateescape")


def _roots(hierarchies: Hierarchies) -> list[Path]:
    """With cgroup v1 each may be cut another way."""
    found = [hierarchies.memory, hierarchies.cpuset, hierarchies.hugetlb]
    return list(dict.fromkeys(root for root in found if root is not None))


def _record(host: Host, tree: Path, summary: Summary) -> None:
    """The kubelet's settings, and its answers when it can be asked."""
    pid = kubelet_process.find(host)
    files: tuple[Path, ...] = ()
    flags = None
    try:
        files = kubelet_process.config_files(host)
        flags = None if pid is None else kubelet_process.command_line(host, pid)
    except (Unavailable, OSError):
        summary.skipped += 1
    for file in files:
        _copy(host, file, tree, summary)
    if flags is not None:
        _write(tree / f"proc/{pid}/cmdline", flags, summary)
    for name, content in recording.record(host):
        if content is None:
            summary.skipped += 1
        else:
            _write(tree / "numaudit" / name, content, summary)


def _pod_log_folders(host: Host) -> list[Path]:
    folder = host.at("/var/log/pods")
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _copy(host: Host, file: Path, tree: Path, summary: Summary) -> None:
    try:
        content = read_bytes(file, limit=64 << 20)
    except OSError:
        summary.skipped += 1
        return
    _write(_at(host, file, tree), content, summary)


def _write(target: Path, content: bytes, summary: Summary) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    summary.files += 1
    summary.bytes += len(content)


def _at(host: Host, path: Path, tree: Path) -> Path:
    return tree / path.relative_to(host.root)


def _pack(tree: Path, target: Path) -> None:
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with tarfile.open(partial, "w:xz") as archive:
            archive.add(tree, arcname=tree.name)
        partial.replace(target)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError):
            raise Unavailable(f"cannot write {target}: {error.strerror}") from error
        raise
