"""What processes map: shared memory counts once, each process has its part, and names from outside are inert."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from numaudit.engine.collectors.containers.mapped import Mapped, ProcessWalk, Segments
from numaudit.kernel.host import Host
from numaudit.kernel.memory import numa_maps
from numaudit.kernel.memory.maps import SharedMapping
from numaudit.snapshot import Mappings

PAGE, MIB = 4096, 1 << 20


def segment(*parts: tuple[int, int, int, Mapping[int, int]]) -> dict[int, int]:
    """By the process, the first and last page of the file that it maps, and the pages by node that it has used."""
    segments = Segments()
    for number, (pid, begin, end, pages) in enumerate(parts):
        sizes = {node: count * PAGE for node, count in pages.items()}
        mapping = numa_maps.Mapping(number, "default", "shmem", PAGE, sizes, "/dev/zero")
        segments.add(pid, mapping, SharedMapping(begin * PAGE, end * PAGE, "00:01", 5))
    (found,) = segments.found.values()
    return {node: size // PAGE for node, size in found.bytes_by_node.items()}


def test_a_page_that_several_processes_map_counts_once() -> None:
    assert segment((1, 0, 8, {0: 8}), (2, 0, 8, {0: 8}), (3, 0, 8, {0: 3})) == {0: 8}


def test_a_page_that_a_process_maps_twice_counts_once() -> None:
    """As a ring buffer does, whose end goes on in its beginning."""
    assert segment((1, 0, 8, {0: 8}), (1, 0, 8, {0: 8})) == {0: 8}


def test_parts_of_a_segment_that_have_no_page_in_common_add_up() -> None:
    assert segment((1, 0, 4, {0: 4}), (2, 4, 8, {1: 4})) == {0: 4, 1: 4}
    assert segment((1, 0, 4, {0: 4}), (1, 4, 8, {0: 4}), (2, 0, 8, {0: 6})) == {0: 8}


def test_pages_of_different_nodes_are_different_pages() -> None:
    assert segment((1, 0, 8, {0: 5}), (2, 0, 8, {1: 3})) == {0: 5, 1: 3}


def test_any_order_of_processes_gives_the_same() -> None:
    parts = [(1, 0, 4, {0: 4}), (2, 2, 6, {0: 1, 1: 2}), (3, 8, 9, {1: 1})]
    assert segment(*parts) == segment(*reversed(parts)) == {0: 4, 1: 3}


# A process's files


def mapped(
    tmp_path: Path, numa_maps_text: str, maps: str | None = None, mounts: str = "", stat: bytes | None = None
) -> Mappings:
    folder = tmp_path / "proc/7"
    folder.mkdir(parents=True)
    (folder / "numa_maps").write_text(numa_maps_text)
    (folder / "mountinfo").write_text(mounts)
    (tmp_path / "proc/stat").write_text("cpu  1 2 3\nbtime 1700000000\nprocesses 9\n")
    if maps is not None:
        (folder / "maps").write_text(maps)
    if stat is not None:
        (folder / "stat").write_bytes(stat)
    host = Host(tmp_path)
    found = Mapped(ProcessWalk(host, PAGE, {}))
    found.add(7, numa_maps.read(host, 7))
    return found.mappings(1, 1)


def test_shared_memory_is_known_by_its_mount_whatever_its_name(tmp_path: Path) -> None:
    found = mapped(
        tmp_path,
        "7f00 default file=/cache/model dirty=2 N1=2 kernelpagesize_kB=4\n"
        "8f00 default file=/data/index mapped=3 N1=3 kernelpagesize_kB=4\n",
        "7f00-9f00 rw-s 00000000 00:2a 12    /cache/model\n8f00-af00 rw-s 00000000 00:2b 13    /data/index\n",
        "40 39 0:42 / /cache rw - tmpfs tmpfs rw\n41 39 0:43 / /data rw - overlay overlay rw\n",
    )
    assert [(one.kind, one.file, one.bytes_by_node) for one in found.shared or ()] == [
        ("shmem", "/cache/model", {1: 2 * PAGE})
    ]
    assert found.by_kind == {"shmem": {1: 2 * PAGE}, "file": {1: 3 * PAGE}}


def test_a_library_on_a_tmpfs_that_is_mapped_privately_is_no_shared_memory(tmp_path: Path) -> None:
    found = mapped(
        tmp_path,
        "7f00 default file=/dev/shm/lib.so mapped=2 N1=2 kernelpagesize_kB=4\n",
        "7f00-9f00 r-xp 00000000 00:2a 12    /dev/shm/lib.so\n",
        "40 39 0:42 / /dev/shm rw - tmpfs tmpfs rw\n",
    )
    assert found.shared == ()


def test_without_maps_shared_memory_is_not_known(tmp_path: Path) -> None:
    found = mapped(tmp_path, "7f00 default file=/dev/shm/a dirty=2 N1=2 kernelpagesize_kB=4\n")
    assert found.shared is None
    assert found.by_kind == {"shmem": {1: 2 * PAGE}}


def test_each_process_has_its_name_its_start_and_its_mappings_by_kind_and_policy(tmp_path: Path) -> None:
    stat = b"7 (po) S (x) R " + b" ".join(b"0" for _ in range(18)) + b" 500 1 2" + b" 0" * 16 + b"\n"
    found = mapped(
        tmp_path,
        "7f00 bind:1 anon=2 dirty=2 N1=2 kernelpagesize_kB=4\n"
        "8f00 bind:1 anon=1 dirty=1 N0=1 kernelpagesize_kB=4\n"
        "9f00 default heap anon=1 dirty=1 N0=1 kernelpagesize_kB=4\n"
        "af00 default file=/usr/lib/libc.so mapped=1 N0=1 kernelpagesize_kB=4\n",
        stat=stat,
    )
    assert {(one.pid, one.process, one.started_at) for one in found.by_process} == {(7, "po) S (x", 1700000005.0)}
    assert [(one.kind, one.policy, one.bytes_by_node) for one in found.by_process] == [
        ("anon", "bind:1", {1: 2 * PAGE, 0: PAGE}),
        ("heap", "default", {0: PAGE}),
    ]


def test_names_that_a_tenant_chose_are_printable(tmp_path: Path) -> None:
    stat = b"7 (\x1b[31m\n\xff) R " + b" ".join(b"0" for _ in range(18)) + b" 500 1 2" + b" 0" * 16 + b"\n"
    found = mapped(
        tmp_path,
        "7f00 default file=/dev/shm/a\x1b[2J\\012b dirty=2 N1=2 kernelpagesize_kB=4\n",
        "7f00-9f00 rw-s 00000000 00:2a 12    /dev/shm/x\n",
        stat=stat,
    )
    (one,) = found.by_process
    assert one.process == "\\x1b[31m\\n\\xff"
    assert one.file == "/dev/shm/a\\x1b[2J\\nb"
    assert [shared.file for shared in found.shared or ()] == [one.file]
