"""Copies what the readers read into a tree that --root understands."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath
from typing import IO

from msgspec import Struct, field

from numaudit.api import document
from numaudit.capture import archive, devices
from numaudit.capture.archive import MOST_LEVELS, SUFFIX
from numaudit.capture.new_folder import NewFolder, filled, new_file, temporary_folder
from numaudit.capture.thread_files import ThreadFiles
from numaudit.containers import container_names
from numaudit.errors import InputError, Unavailable, printable
from numaudit.kernel import earlier, files, host_settings
from numaudit.kernel.cgroup import Hierarchies, escape, find_hierarchies
from numaudit.kernel.cgroup_tree import CgroupTree, read_inodes
from numaudit.kernel.host import Host, read_bytes
from numaudit.kernel.origin import NOTE, origin_of
from numaudit.kubelet.sources import cdi_files, recording
from numaudit.kubelet.sources import process as kubelet_process
from numaudit.kubelet.sources.process import LocatedKubelet, StartSettings
from numaudit.topology.quantity import plural

Pause = Callable[[], None]
NOT_READ = "not-read.txt"
"""In the tree: what could not be read, and why; a line each."""

_DEEPEST_FOLDER = MOST_LEVELS - 2
"""Within an archive a capture is in a folder, and files are in theirs."""
_OTHER_ARCHIVES = (".bz2", ".gz", ".tar", ".tgz", ".txz", ".xz", ".zip", ".zst")
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENODEV)
_LARGEST_FILE = 64 << 20
_NODES = "sys/devices/system/node/"
PATTERNS = (
    *(f"proc/{name}" for name in (
        "mounts", "uptime", "version", "stat", "vmstat", "meminfo", "self/mountinfo")),
    *(f"proc/[0-9]*/{name}" for name in (
        "cgroup", "comm", "maps", "mountinfo", "numa_maps", "stat", "status", "uid_map")),
    *(_NODES + name for name in ("online", "possible", "has_cpu", "has_memory")),
    *(f"{_NODES}node[0-9]*/{name}" for name in (
        "meminfo", "numastat", "distance", "cpulist", "hugepages/*/*_hugepages",
        "access*/initiators/*_latency", "access*/initiators/*_bandwidth")),
    "sys/devices/virtual/memory_tiering/*/nodelist",
    "sys/kernel/mm/numa/demotion_enabled",
    *(f"sys/kernel/mm/hugepages/hugepages-*/{name}" for name in (
        "nr_hugepages", "resv_hugepages", "surplus_hugepages", "nr_overcommit_hugepages")),
    "sys/kernel/mm/mempolicy/weighted_interleave/node[0-9]*",
    "sys/devices/system/cpu/online",
    *(f"sys/devices/system/cpu/cpu[0-9]*/{name}" for name in (
        "topology/*", "cache/index*/level", "cache/index*/id", "cache/index*/size", "cache/index*/shared_cpu_list")),
)  # fmt: skip
"""Files of any host, below its root."""
_INITIATORS = "node[0-9]*/access*/initiators/node[0-9]*"
"""Links to nodes; as folders they say the same."""
CGROUP = ("cgroup.procs", "cgroup.controllers", "cgroup.events", "cgroup.subtree_control", "memory.numa_stat",
    "memory.current", "memory.swap.max", "memory.stat", "memory.events",
    "memory.usage_in_bytes", "devices.list", "cpuset.*", "hugetlb.*.numa_stat", "hugetlb.*.current")  # fmt: skip
KUBELET = ("memory_manager_state", "cpu_manager_state", "device-plugins/kubelet_internal_checkpoint",
    "dra_manager_state")  # fmt: skip


class CaptureSummary(Struct):
    """The result of a capture: files copied, and files that could not be read."""

    files: int = 0
    bytes: int = 0
    unread: list[Unread] = field(default_factory=list)


class Unread(Struct, frozen=True):
    """A file by its path on the host (or a question to the kubelet), and why there is none of it."""

    what: str
    reason: str


def _as_it_is(content: bytes) -> bytes:
    return content


class _Copy(Struct):
    """A tree on its way to a folder."""

    host: Host
    tree: NewFolder
    summary: CaptureSummary
    below: PurePath = PurePath()
    """Folder of the tree that stands for the host's root."""
    counted: set[PurePath] = field(default_factory=set)
    """Files of the tree that stay as they are."""

    def copy(self, file: Path, filtered: Callable[[bytes], bytes] = _as_it_is) -> None:
        """One file as it is, or what a filter leaves of it."""
        try:
            content = read_bytes(file, limit=_LARGEST_FILE)
        except OSError as error:
            _note(self.host, file, error, self.summary)
            return
        self.keep(file, content, filtered)

    def keep(self, file: Path, content: bytes, filtered: Callable[[bytes], bytes] = _as_it_is) -> None:
        """What was read of one file."""
        if self.inside(file) in self.counted:
            return
        try:
            kept = filtered(content)
        except ValueError as error:
            self.miss(file, f"not understood: {error}")
            return
        self.write(self.inside(file), kept)

    def miss(self, file: Path, reason: str) -> None:
        """There is none of this file, or not all of it."""
        self.summary.unread.append(Unread(self.host.name_of(file), reason))

    def write(self, below: PurePath, content: bytes) -> None:
        """A file of the tree."""
        self.tree.write(below, content)
        self.summary.files += 1
        self.summary.bytes += len(content)

    def make(self, folder: Path) -> None:
        """An empty folder."""
        self.tree.make(self.inside(folder))

    def inside(self, path: Path) -> PurePath:
        """Path of the host -> in the tree."""
        return self.below / path.relative_to(self.host.root)


def capture(host: Host, target: Path, pause: Pause | None = None) -> CaptureSummary:
    """Copy to a new or empty folder, or into a new .tar.xz file, for the owner's eyes only.

    `pause`: waits between two readings of counters, of which the first is in a folder of its own; None = one reading.
    What was begun is removed when it fails or is interrupted. Raises InputError, Unavailable.
    """
    try:
        refuse(target)
    except OSError as error:
        raise Unavailable(f"cannot write {target}: {error.strerror}") from error
    with _private():
        if not target.name.endswith(SUFFIX):
            return _into(host, target, pause)
        with _writing(target), new_file(target) as file:
            return _pack(host, file, target.name.removesuffix(SUFFIX), target, pause)


def capture_to(host: Host, stream: IO[bytes], pause: Pause | None = None) -> CaptureSummary:
    """Write a .tar.xz archive to a stream. `pause` as for `capture`. Raises Unavailable."""
    with _private():
        return _pack(host, stream, "capture", "standard output", pause)


def _pack(host: Host, stream: IO[bytes], name: str, where: Path | str, pause: Pause | None) -> CaptureSummary:
    with temporary_folder() as folder:
        summary = _into(host, folder / "tree", pause)
        with _writing(where):
            archive.pack(folder / "tree", stream, name)
            stream.flush()
    return summary


@contextmanager
def _private() -> Iterator[None]:
    """New files are 0600 and new folders 0700: names of pods and services are private."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _writing(where: Path | str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"cannot write {where}: {error.strerror}") from error


def refuse(target: Path) -> None:
    """Raises InputError when something is there already, or the name is that of another kind of archive."""
    if target.name.endswith(SUFFIX):
        if target.exists():
            raise InputError(f"{target} exists already; give another name or remove it")
    elif target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} is not an empty folder; give a new one, or a name that ends in {SUFFIX}")
    elif target.suffix in _OTHER_ARCHIVES:
        raise InputError(f"{target}: numaudit writes folders and {SUFFIX} files; give a name that ends in {SUFFIX}")


def _into(host: Host, target: Path, pause: Pause | None) -> CaptureSummary:
    summary = CaptureSummary()
    kubelet = _located(host, summary)
    try:
        with filled(target) as tree:
            _fill(kubelet, tree, summary, pause)
    except OSError as error:
        raise Unavailable(f"cannot write {error.filename or target}: {error.strerror}") from error
    return summary


def _fill(kubelet: LocatedKubelet, tree: NewFolder, summary: CaptureSummary, pause: Pause | None) -> None:
    host, into = kubelet.host, _Copy(kubelet.host, tree, summary)
    if pause is not None:
        _copy_counters(_Copy(host, tree, summary, PurePath(earlier.FOLDER)))
        pause()
        _copy_counters(into)  # at once, for what follows takes its time
    for file in _files(host):
        into.copy(file)
    into.copy(host.proc / devices.CPUINFO, devices.without_serial)
    into.copy(host.proc / host_settings.COMMAND_LINE, host_settings.without_secrets)
    for table in files.glob(host.root, host_settings.ACPI_TABLES):
        into.write(into.inside(table), b"")
    ThreadFiles(host, into.keep, into.miss).copy()
    for initiator in files.glob(host.nodes, _INITIATORS):
        into.make(initiator)
    for file in cdi_files.files(host):
        into.copy(file, partial(_cdi_without_secrets, file))
    _copy_cgroups(into)
    _link_devices(into)
    for folder in _pod_log_folders(host, summary):
        into.make(folder)
    _copy_runtime_names(into)
    _record(kubelet, into)
    note = document.encode("Capture", document.Capture(), origin_of(host))
    tree.write(PurePath(NOTE), note)
    lines = [f"{printable(one.what)}: {printable(one.reason)}\n" for one in summary.unread]
    tree.write(PurePath(NOT_READ), "".join(lines).encode())


def _copy_counters(into: _Copy) -> None:
    """One reading, which what is copied later leaves as it is."""

    def keep(file: Path, content: bytes) -> None:
        into.keep(file, content)
        into.counted.add(into.inside(file))

    for pattern in earlier.COUNTERS:
        for file in files.glob(into.host.root, pattern):
            into.copy(file)
            into.counted.add(into.inside(file))
    ThreadFiles(into.host, keep, into.miss, counters_only=True).copy()


def _located(host: Host, summary: CaptureSummary) -> LocatedKubelet:
    try:
        return kubelet_process.locate(host)
    except OSError as error:
        _note(host, host.kubelet, error, summary)
        return LocatedKubelet(host)


def _files(host: Host) -> Iterator[Path]:
    for pattern in (*PATTERNS, *host_settings.PATTERNS):
        yield from files.glob(host.root, pattern)
    yield from devices.files(host)
    yield from (host.kubelet / name for name in KUBELET)


def _copy_cgroups(into: _Copy) -> None:
    hierarchies, inodes = find_hierarchies(into.host), read_inodes(into.host)
    too_deep = 0
    for root in _roots(hierarchies):
        for group in CgroupTree(root, inodes).groups():
            folder = Path(f"{root}{group.path}")
            if _is_too_deep(into, folder):
                too_deep += 1
                continue
            into.make(folder)
            for pattern in CGROUP:
                for file in files.glob(folder, pattern):
                    into.copy(file)
    if too_deep:
        into.summary.unread.append(Unread(plural(too_deep, "cgroup"), f"in more than {_DEEPEST_FOLDER} folders"))
    lines = []
    for group in CgroupTree(hierarchies.memory, inodes).groups():
        folder = Path(f"{hierarchies.memory}{group.path}")
        if not _is_too_deep(into, folder):
            lines.append(f"{group.id} {escape('/' + str(into.inside(folder)))}\n")
    into.tree.write(PurePath("cgroup-inodes.txt"), os.fsencode("".join(lines)))


def _cdi_without_secrets(file: Path, content: bytes) -> bytes:
    return cdi_files.without_secrets(content, file.name)


def _link_devices(into: _Copy) -> None:
    """Ways from processes to devices."""
    ways = devices.CapturedWays(into.host)
    for link in ways.links():
        into.tree.link(link.path, link.target)
    for file, text in ways.texts.items():
        into.write(file, text.encode())


def _is_too_deep(into: _Copy, folder: Path) -> bool:
    return len(into.inside(folder).parts) > _DEEPEST_FOLDER


def _copy_runtime_names(into: _Copy) -> None:
    """Docker's and Podman's names of their containers, without the environments in the same files."""
    try:
        for file in container_names.sources(into.host):
            into.copy(file, partial(container_names.names_only, file))
    except OSError as error:
        _note(into.host, Path(error.filename or into.host.root), error, into.summary)


def _roots(hierarchies: Hierarchies) -> list[Path]:
    """With cgroup v1 each may be cut another way."""
    found = [hierarchies.memory, hierarchies.cpuset, hierarchies.hugetlb]
    if hierarchies.devices is not None and files.is_folder(hierarchies.devices):  # captures of before have none
        found.append(hierarchies.devices)
    return list(dict.fromkeys(root for root in found if root is not None))


def _record(kubelet: LocatedKubelet, into: _Copy) -> None:
    """The kubelet's settings, and its answers when it can be asked."""
    host, pid, settings, summary = kubelet.host, kubelet.process.pid, kubelet.settings, into.summary
    files: tuple[Path, ...] = ()
    flags = None
    if kubelet.process.doubt is not None:
        summary.unread.append(Unread("the kubelet's command line", kubelet.process.doubt))
    try:
        files = kubelet_process.config_files(host)
        flags = None if pid is None else kubelet_process.command_line(host, pid)
    except Unavailable as error:
        summary.unread.append(Unread("the kubelet's configuration", str(error)))
    except OSError as error:
        _note(host, host.proc / f"{pid}/cmdline", error, summary)
    read_before = {} if settings is None else settings.files
    for file in files:
        without_secrets = partial(recording.configuration, host.name_of(file))
        if file in read_before:
            into.keep(file, read_before[file], without_secrets)
        else:
            into.copy(file, without_secrets)
    if flags is not None:
        into.write(PurePath(f"proc/{pid}/cmdline"), flags)
    for name, content in _answers(host, settings, summary):
        if content is None:
            summary.unread.append(Unread(f"numaudit/{name}", "the kubelet did not answer"))
        else:
            into.write(PurePath("numaudit", name), content)


def _answers(host: Host, settings: StartSettings | None, summary: CaptureSummary) -> Iterator[recording.RecordedAnswer]:
    try:
        yield from recording.record(host, settings)
    except OSError as error:
        _note(host, Path(error.filename or host.answers), error, summary)


def _pod_log_folders(host: Host, summary: CaptureSummary) -> list[Path]:
    folder = host.at("/var/log/pods")
    try:
        return [folder / name for name in sorted(files.names(folder))]
    except OSError as error:
        _note(host, folder, error, summary)
        return []


def _note(host: Host, path: Path, error: OSError, summary: CaptureSummary) -> None:
    """Note an error. A file that does not exist or is gone is none; a process that has ended has no mounts (EINVAL)."""
    if error.errno not in _NOT_THERE and (path.name, error.errno) != ("mountinfo", errno.EINVAL):
        summary.unread.append(Unread(host.name_of(path), error.strerror or str(error)))
