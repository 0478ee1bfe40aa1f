"""The cgroup file systems: where they are, which groups exist, what each says of memory and CPUs.

Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,cpusets,hugetlb}.rst.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel import files
from numaudit.kernel.host import Host, read_bytes, read_text
from numaudit.kernel.memory import numa_stat
from numaudit.snapshot import Allowed, BytesByNode, HugeBytes, Resident
from numaudit.topology.nodeset import CpuSet, NodeSet

CgroupMode = Literal["v1", "v2", "hybrid"]
ROOT_ID = 1
"""Of the root of cgroup v2, where kernel threads and the idle tasks are."""
LEAF_LINKS = 2
"""Of a folder without folders in it."""
_CPUSET_V2 = ("cpuset.mems.effective", "cpuset.cpus.effective")
_CPUSET_V1 = ("cpuset.effective_mems", "cpuset.effective_cpus")
_OCTAL = re.compile(r"\\([0-7]{3})")


class Cgroup(NamedTuple):
    """One group: its inode (which is its cgroup id) and its path inside the memory hierarchy."""

    id: int
    path: str
    """Starts with `/`; the root is `/`."""

    @property
    def parent(self) -> str:
        return self.path.rpartition("/")[0] or "/"


class Hierarchies(Struct, frozen=True):
    """Folder of each controller's groups. With cgroup v2 all are one folder."""

    mode: CgroupMode
    memory: Path
    cpuset: Path | None
    hugetlb: Path | None
    unified: Path | None
    """The cgroup2 mount, if there is one: BPF programs know groups by its inodes."""
    devices: Path | None = None
    """cgroup v1 only; v2 has programs instead."""
    is_whole: bool = True
    """False: a part of the host's groups, as in a cgroup namespace. There may be others that are not to be seen."""

    @property
    def is_v2(self) -> bool:
        return self.mode == "v2"


def find_hierarchies(host: Host) -> Hierarchies:
    """Find the mounted cgroup hierarchies. Raises Unavailable when none of them counts memory."""
    mounts = list(_cgroup_mounts(host))
    unified = next((host.at(point) for kind, point, _ in mounts if kind == "cgroup2"), None)
    by_controller: dict[str, Path] = {}
    for kind, point, options in mounts:
        if kind == "cgroup":
            for option in options.split(","):
                by_controller.setdefault(option, host.at(point))
    if "memory" in by_controller:
        mode: CgroupMode = "hybrid" if unified is not None else "v1"
        return Hierarchies(
            mode,
            by_controller["memory"],
            by_controller.get("cpuset"),
            by_controller.get("hugetlb"),
            unified,
            by_controller.get("devices"),
        )
    if unified is None:
        raise Unavailable(
            f"no cgroup file system with the memory controller in {host.proc / 'mounts'}; "
            "mount cgroup2 on /sys/fs/cgroup (systemd does), or run on the host and not in a container"
        )
    if "memory" not in _controllers(unified):
        raise Unavailable(
            f"{unified} has no memory controller (its cgroup.controllers); remove cgroup_disable=memory "
            "from the kernel's command line, or delegate the controller to this container"
        )
    devices = by_controller.get("devices")
    return Hierarchies("v2", unified, unified, unified, unified, devices, is_whole=_is_whole(unified))


def _is_whole(unified: Path) -> bool:
    """Is this the host's own root? That has no cgroup.events. Raises Unavailable where it is not and has no groups."""
    if not files.exists(unified / "cgroup.events"):
        return True
    if files.status(unified).st_nlink == LEAF_LINKS:
        raise Unavailable(
            f"{unified} is the group of this container alone, so no other can be seen; "
            "run in the host's cgroup namespace (docker run --cgroupns=host, or mount the host's /sys/fs/cgroup there)"
        )
    return False


class ReadResident(Struct, frozen=True):
    """Contents of a group's files when they were read last, and the value made of them."""

    digest: int
    """Of the text of memory.numa_stat: Python's hash, of 64 bits with a secret key."""
    huge_pages: HugeBytes | None
    resident: Resident


class Reader(Struct, frozen=True):
    """Reads the files of single groups. Raises OSError when the group is gone, ParseError on foreign text."""

    hierarchies: Hierarchies
    huge_page_sizes: tuple[int, ...] = ()
    """Bytes; only page sizes that the machine uses need reading."""
    page_size: int = 4096
    is_tiered: bool = False
    """Are there several memory tiers? Else nothing moves between them, and its counters need no reading."""
    read: Callable[[str], bytes] = read_bytes
    """Reads a file that is one record; one that keeps files open is cheaper for repeated reads."""

    def resident(self, path: str) -> Resident:
        """Bytes by node and type, descendants included."""
        return self.read_resident(path, None).resident

    def read_resident(self, path: str, last: ReadResident | None) -> ReadResident:
        """The same. A text that is the last one is not parsed again: parsing takes longer than reading."""
        file = f"{self.hierarchies.memory}{path}/memory.numa_stat"
        text, huge_pages = self.read(file), self.huge_pages(path)
        digest = hash(text)
        if last is not None and last.digest == digest and last.huge_pages == huge_pages:
            return last
        hugetlb = None if huge_pages is None else sum_of_sizes(huge_pages)
        try:
            if self.hierarchies.is_v2:
                found = numa_stat.resident_v2(text, hugetlb, self.page_size if self.is_tiered else None)
            else:
                found = numa_stat.resident_v1(text, hugetlb, self.page_size)
        except ParseError as error:
            raise _in(file, error) from None
        if huge_pages:
            found = structs.replace(found, huge_pages=huge_pages)
        return ReadResident(digest, huge_pages, found)

    def huge_pages(self, path: str) -> HugeBytes | None:
        """Bytes by page size and node, descendants included; None when the controller is absent.

        Each size has a pool of its own.
        """
        if self.hierarchies.hugetlb is None:
            return None
        found: dict[int, BytesByNode] = {}
        for size in self.huge_page_sizes:
            file = f"{self.hierarchies.hugetlb}{path}/hugetlb.{huge_page_label(size)}.numa_stat"
            try:
                found[size] = numa_stat.hugetlb(self.read(file), self.hierarchies.is_v2)
            except FileNotFoundError:
                return None
            except ParseError as error:
                raise _in(file, error) from None
        return found

    def allowed(self, path: str) -> Allowed:
        """The effective cpuset, or None for what the group's hierarchy does not show."""
        if self.hierarchies.cpuset is None:
            return Allowed(None, None)
        mems, cpus = _CPUSET_V2 if self.hierarchies.is_v2 else _CPUSET_V1
        folder = f"{self.hierarchies.cpuset}{path}"
        try:
            return _allowed(self.read(f"{folder}/{mems}"), self.read(f"{folder}/{cpus}"))
        except ParseError as error:
            raise _in(f"{folder}/{mems} or {cpus}", error) from None

    def own_nodes(self, path: str) -> NodeSet | None:
        """cpuset.mems, which says whether the nodes are set in this very group. None = that is not shown here."""
        if self.hierarchies.cpuset is None:
            return None
        file = f"{self.hierarchies.cpuset}{path}/cpuset.mems"
        try:
            return NodeSet.parse(read_text(file))
        except FileNotFoundError:
            return None
        except ParseError as error:
            raise _in(file, error) from None

    def why_not_counted(self, path: str) -> str | None:
        """Reason why a group that is there has no memory.numa_stat; None = it has gone, or the kernel has none."""
        if not self.hierarchies.is_v2 or not path or not files.is_folder(f"{self.hierarchies.memory}{path}"):
            return None
        names = path.split("/")
        for depth in range(1, len(names)):
            above = "/".join(names[:depth])
            try:
                handed_down = read_text(f"{self.hierarchies.memory}{above}/cgroup.subtree_control").split()
            except OSError:
                return None
            if "memory" not in handed_down:
                return (
                    f"the memory controller is off here: `memory` is not in cgroup.subtree_control of {above or '/'}, "
                    "which counts these bytes as its own"
                )
        return None

    def processes(self, path: str) -> tuple[int, ...]:
        """Ids of the processes in this very group; those in another PID namespace are left out."""
        return tuple(filter(None, self.all_processes(path)))

    def all_processes(self, path: str) -> tuple[int, ...]:
        """The same, with a 0 for each that is in another PID namespace."""
        text = read_text(f"{self.hierarchies.memory}{path}/cgroup.procs")
        return tuple(int(word[:9]) for word in text.split() if word.isascii() and word.isdigit())


def parse_process_cgroups(text: str) -> dict[str, str]:
    """/proc/PID/cgroup: controller -> path; the unified hierarchy has the key ""."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path:
            for controller in controllers.split(","):
                paths[controller] = path
    return paths


def sum_of_sizes(huge_pages: HugeBytes) -> BytesByNode:
    """Bytes by node, in pages of any size."""
    sums: dict[int, int] = {}
    for by_node in huge_pages.values():
        for node, size in by_node.items():
            sums[node] = sums.get(node, 0) + size
    return sums


def huge_page_label(size: int) -> str:
    """The size as hugetlb file names spell it: 64KB, 2MB, 1GB."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size >> 10}KB"


def unescape(text: str) -> str:
    """Undo the octal escapes (`\\040` for a space) of /proc/mounts and mountinfo."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def escape(path: str) -> str:
    """As the kernel escapes mounts: one line per path, whatever its name."""
    return "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in path)


def _cgroup_mounts(host: Host) -> Iterator[tuple[str, str, str]]:
    try:
        text = read_text(host.proc / "mounts")
    except OSError as error:
        remedy = "mount proc" if host.is_live else "give a folder that `numaudit capture` wrote"
        raise Unavailable(f"cannot read {host.proc / 'mounts'}: {error.strerror}; {remedy}") from error
    for line in text.split("\n"):
        fields = line.split(" ")
        if len(fields) >= 4 and fields[2] in ("cgroup", "cgroup2"):
            point = unescape(fields[1])
            if not host.is_mounted:
                yield fields[2], point, fields[3]
            elif Path(point).is_relative_to(host.root):  # a container's own mounts may show its groups alone
                yield fields[2], f"/{Path(point).relative_to(host.root)}", fields[3]


def _controllers(unified: Path) -> list[str]:
    """Controllers of a cgroup2 mount; a kernel that does not say is taken at its best."""
    try:
        return read_text(unified / "cgroup.controllers").split()
    except OSError:
        return ["memory"]


def _in(file: str, error: ParseError) -> ParseError:
    return ParseError(f"{file}: {error}")


@lru_cache(maxsize=1024)
def _allowed(mems: bytes, cpus: bytes) -> Allowed:
    """Few sets are in use, and each by many groups."""
    return Allowed(NodeSet.parse(mems.decode("ascii", "replace")), CpuSet.parse(cpus.decode("ascii", "replace")))
