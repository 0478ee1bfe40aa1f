"""/proc/PID/numa_maps: pages of each mapping by node, and the mapping's memory policy; and the weights of the policy
weighted interleave, which /sys/kernel/mm/mempolicy/weighted_interleave has.

Source: fs/proc/task_mmu.c (show_numa_map), mm/mempolicy.c (mpol_to_str), numa_maps in proc(5);
Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar

from msgspec import Struct, field

from numaudit.errors import ParseError
from numaudit.kernel import files
from numaudit.kernel.host import Host, number_at, numbered, read_text

SumsByNode = dict[int, int]
_Key = TypeVar("_Key", str, int)

# A policy ends where the first field starts: a bare word of the kernel's or name=value. The policy
# `weighted interleave=static:0` looks like a field itself. A file name may hold any byte but blank, tab and newline.
_LINE = re.compile(
    r"(?P<address>[0-9a-f]{1,16}) (?P<policy>\S.*?)"
    r"(?P<fields>(?: (?:(?:heap|stack|huge)(?= |$)|(?!interleave=)[A-Za-z]\w*=).*)?)",
    re.ASCII | re.DOTALL,
)
_NODE = re.compile(r"N(\d{1,4})", re.ASCII)
_SHARED_FILES = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero")  # noqa: S108 (names the kernel prints)
_DEFAULT_PAGE = 4096
_STEP, _FURTHEST = 128, 64 << 10
"""Bytes of numa_maps that are asked for at a time, and at most, to find a thread's policy."""


class MappingSums(Struct):
    """Sums over mappings, in bytes by node. A page that several processes map counts for each."""

    by_kind: dict[str, SumsByNode] = field(default_factory=dict)
    """anon, heap, stack, file, shmem, hugetlb. A file mapping's private copies count as file."""
    by_policy: dict[str, SumsByNode] = field(default_factory=dict)
    """As printed: default, bind:1, prefer:0, interleave:0-3, local, ..."""
    by_page_size: dict[int, SumsByNode] = field(default_factory=dict)
    unsampled: dict[str, int] = field(default_factory=dict)
    """Bytes that NUMA balancing never samples, by `Mapping.unsampled`."""

    def add(self, mappings: Iterable[Mapping]) -> None:
        """Sum `N<node>=<pages>` over all mappings; mappings without pages add nothing."""
        for mapping in mappings:
            why = mapping.unsampled
            if why is not None and mapping.bytes_by_node:
                self.unsampled[why] = self.unsampled.get(why, 0) + sum(mapping.bytes_by_node.values())
            for node, size in mapping.bytes_by_node.items():
                _add(self.by_kind, mapping.kind, node, size)
                _add(self.by_policy, mapping.policy, node, size)
                _add(self.by_page_size, mapping.page_size, node, size)


class Mapping(Struct, frozen=True):
    """One line. Each mapping counts in its own page size: a huge page weighs 2 MiB, not 4 KiB."""

    address: int
    policy: str
    kind: str
    page_size: int
    bytes_by_node: SumsByNode
    file: str | None = None
    """As printed, with octal escapes; shared memory without a name has one that the kernel makes up."""

    @property
    def unsampled(self) -> Literal["huge-pages", "policy", "file"] | None:
        """Reason why NUMA balancing takes no samples of it; None = it may.

        Huge pages of the pool never; memory under a policy without MPOL_F_NUMA_BALANCING; files unless they are mapped
        for writing, which is not printed here. Older kernels print nothing after the `=` for that flag.
        Source: kernel/sched/fair.c (task_numa_work), mm/mempolicy.c (vma_policy_mof, mpol_to_str).
        """
        if self.kind == "hugetlb":
            return "huge-pages"
        mode, _, nodes = self.policy.partition("=")
        if self.policy != "default" and not ("balancing" in nodes or (mode == "bind" and nodes.startswith(":"))):
            return "policy"
        return "file" if self.kind == "file" else None


def read(host: Host, pid: int) -> tuple[Mapping, ...]:
    """All mappings of one process. Raises OSError (gone, not permitted) or ParseError."""
    file = host.proc / str(pid) / "numa_maps"
    text = read_text(file, limit=64 << 20)
    try:
        return parse(line for line in text.split("\n") if line)
    except ParseError as error:
        raise ParseError(f"{file}: {error}") from None


def read_policy(host: Host, pid: int, thread: int) -> str | None:
    """The memory policy of one thread; None = it has no mappings. Raises OSError (gone, not permitted) or ParseError.

    /proc/PID/task/TID/numa_maps shows, for mappings without a policy of their own, that of the thread. The kernel walks
    the pages of a mapping for each line, and stops when it has as much text as was asked for (fs/seq_file.c,
    seq_read_iter), so we ask for little at a time, until there is a line that tells.
    """
    return policy_of_thread(mapping for _, mapping in _telling(host, pid, thread))


def policy_of(host: Host, pid: int) -> str | None:
    """The memory policy of a process's main thread; of a capture without its threads, by its own numa_maps.

    Raises as `read_policy` does.
    """
    try:
        return read_policy(host, pid, pid)
    except FileNotFoundError:
        if host.is_live:
            raise
        return policy_of_thread(read(host, pid))


def read_telling_lines(host: Host, pid: int, thread: int) -> bytes:
    """The first lines of a thread's numa_maps, as far as `read_policy` needs them. Raises as it does."""
    lines = [line for line, _ in _telling(host, pid, thread)]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _telling(host: Host, pid: int, thread: int) -> Iterator[tuple[str, Mapping]]:
    """Lines until the first that tells. Raises as `read_policy` does."""
    file = f"{host.proc}/{pid}/task/{thread}/numa_maps"
    descriptor = files.open_file(file)
    try:
        for line in _little_by_little(descriptor):
            mapping = parse_line(line)
            yield line, mapping
            if mapping.kind == "file":
                return
    except ParseError as error:
        raise ParseError(f"{file}: {error}") from None
    finally:
        os.close(descriptor)


def _little_by_little(descriptor: int) -> Iterator[str]:
    """The first lines, no more of which are read than are asked for."""
    pending, seen = b"", 0
    while seen < _FURTHEST and (chunk := os.read(descriptor, _STEP)):
        seen += len(chunk)
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")


def policy_of_thread(mappings: Iterable[Mapping]) -> str | None:
    """By the first mapping of a file on a disk, which has no policy of its own unless a program binds its own text;
    where there is none, by the first mapping. None = there are no mappings."""
    first = None
    for one in mappings:
        if one.kind == "file":
            return one.policy
        first = first or one.policy
    return first


def parse(lines: Iterable[str]) -> tuple[Mapping, ...]:
    """A mapping for each line."""
    return tuple([parse_line(line) for line in lines])


def parse_line(line: str) -> Mapping:
    """Read one mapping. A policy may hold spaces (`prefer (many):0-1`, `weighted interleave:0-1`)."""
    match = _LINE.fullmatch(line.rstrip("\n"))
    if match is None:
        raise ParseError(f"not a numa_maps line: {line[:120]!r}")
    pages: dict[int, int] = {}
    page_size, file = _DEFAULT_PAGE, None
    words = match["fields"].split(" ")
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            continue
        node = _NODE.fullmatch(key) if key[:1] == "N" else None
        if node is not None:
            pages[int(node[1])] = _number(value, line)
        elif key == "kernelpagesize_kB":
            page_size = _number(value, line) * 1024
        elif key == "file":
            file = value
    sizes = {node: count * page_size for node, count in pages.items()}
    return Mapping(int(match["address"], 16), match["policy"], _kind(words), page_size, sizes, file)


def _number(text: str, line: str) -> int:
    """One that is not understood would be missing in a sum that looks whole."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise ParseError(f"not a numa_maps line: {line[:120]!r}")
    return int(text)


def _kind(words: list[str]) -> str:
    if "huge" in words:
        return "hugetlb"
    for word in words:
        if word in ("heap", "stack"):
            return word
        if word.startswith("file="):
            return "shmem" if word[5:].startswith(_SHARED_FILES) else "file"
    return "anon"


def _add(sums: dict[_Key, SumsByNode], key: _Key, node: int, size: int) -> None:
    by_node = sums.setdefault(key, {})
    by_node[node] = by_node.get(node, 0) + size


_NODE_FILE = re.compile(r"node(\d{1,4})", re.ASCII)


def read_weights(host: Host) -> dict[int, int] | None:
    """Weight by node, 1 to 255; None = the kernel has no such policy (before Linux 6.9).

    A node whose file is not a number is left out.
    """
    folder = host.sys / "kernel/mm/mempolicy/weighted_interleave"
    if not files.is_folder(folder):
        return None
    weights = {node: number_at(folder / name) for node, name in numbered(folder, _NODE_FILE)}
    return {node: weight for node, weight in weights.items() if weight is not None}
