"""numa_maps: policies, page sizes, kinds of mapping, and names that imitate fields."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError
from numaudit.kernel.host import Host
from numaudit.kernel.memory import maps, numa_maps
from numaudit.kernel.memory.maps import SharedMapping, devices_in_memory
from numaudit.kernel.memory.numa_maps import Mapping, MappingSums, parse, parse_line

CapturedHost = Callable[[str], Host]
KIB, MIB = 1 << 10, 1 << 20


def added_up(*processes: Iterable[Mapping]) -> MappingSums:
    sums = MappingSums()
    for mappings in processes:
        sums.add(mappings)
    return sums


def test_a_page_weighs_its_own_size() -> None:
    small = parse_line("7f0000000000 default anon=3 dirty=3 N0=1 N3=2 kernelpagesize_kB=4")
    huge = parse_line(
        "7f0000000000 default file=/anon_hugepage\\040(deleted) huge dirty=3 N0=1 N3=2 kernelpagesize_kB=2048"
    )
    assert small.bytes_by_node == {0: 4 * KIB, 3: 8 * KIB}
    assert huge.bytes_by_node == {0: 2 * MIB, 3: 4 * MIB}
    assert (small.page_size, huge.page_size) == (4 * KIB, 2 * MIB)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("7f00 default anon=2 N0=2 kernelpagesize_kB=4", None),
        ("7f00 default heap anon=2 N0=2 kernelpagesize_kB=4", None),
        ("7f00 bind:1 anon=2 N0=2 kernelpagesize_kB=4", "policy"),
        ("7f00 bind=static:1 anon=2 N0=2 kernelpagesize_kB=4", "policy"),
        ("7f00 interleave:0-3 anon=2 N0=2 kernelpagesize_kB=4", "policy"),
        ("7f00 bind=balancing:1 anon=2 N0=2 kernelpagesize_kB=4", None),
        ("7f00 bind=static|balancing:1 anon=2 N0=2 kernelpagesize_kB=4", None),
        ("7f00 bind=:1 anon=2 N0=2 kernelpagesize_kB=4", None),
        ("7f00 default file=/usr/lib/libc.so.6 mapped=2 N0=2 kernelpagesize_kB=4", "file"),
        ("7f00 default file=/dev/shm/x mapped=2 N0=2 kernelpagesize_kB=4", None),
        ("7f00 bind:0 file=/anon_hugepage\\040(deleted) huge dirty=2 N0=2 kernelpagesize_kB=2048", "huge-pages"),
    ],
)
def test_memory_that_numa_balancing_never_samples_says_why(line: str, why: str | None) -> None:
    mapping = parse_line(line)
    assert mapping.unsampled == why
    size = sum(mapping.bytes_by_node.values())
    assert added_up([mapping]).unsampled == ({} if why is None else {why: size})


@pytest.mark.parametrize(
    "policy",
    [
        "default",
        "local",
        "bind:0",
        "bind:0-3,7",
        "prefer:1",
        "prefer=static:1",
        "prefer (many):0-1",
        "prefer (many)=relative:0-1",
        "interleave:0-7",
        "interleave=relative:0-7",
        "weighted interleave:0-1",
        "weighted interleave=static:0-1",
        "bind=static|balancing:0-1",
    ],
)
@pytest.mark.parametrize(
    ("rest", "kind"),
    [
        (" anon=2 dirty=2 N1=2 kernelpagesize_kB=4", "anon"),
        (" heap anon=2 N1=2 kernelpagesize_kB=4", "heap"),
        (" stack anon=2 N1=2 kernelpagesize_kB=4", "stack"),
        (" huge dirty=2 N1=2 kernelpagesize_kB=4", "hugetlb"),
        (" file=/usr/bin/cat mapped=2 N1=2 kernelpagesize_kB=4", "file"),
        (" N1=2 kernelpagesize_kB=4", "anon"),
    ],
)
def test_every_policy_of_the_kernel_is_kept_as_printed(policy: str, rest: str, kind: str) -> None:
    mapping = parse_line(f"7ffd70553000 {policy}{rest}")
    assert (mapping.policy, mapping.kind, mapping.bytes_by_node) == (policy, kind, {1: 8 * KIB})
    assert parse_line(f"7ffd70553000 {policy}").policy == policy


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/dev/shm/segment", "shmem"),
        ("/memfd:guest\\040(deleted)", "shmem"),
        ("/SYSV00000000\\040(deleted)", "shmem"),
        ("/dev/zero\\040(deleted)", "shmem"),
        ("/usr/lib/libc.so.6", "file"),
        ("/home/memfd:x", "file"),
    ],
)
def test_shared_memory_is_known_by_the_name_of_its_file(file: str, kind: str) -> None:
    assert parse_line(f"7f00 default file={file} dirty=1 N0=1 kernelpagesize_kB=4").kind == kind


@pytest.mark.parametrize(
    "name", ["N5\\0757", "a\\012b", "stack", "heap", "huge", "kernelpagesize_kB\\0754096", "\r\x0b\x1c", "é"]
)
def test_a_file_name_cannot_pass_for_a_field(name: str) -> None:
    sums = added_up(parse(f"7f00 default file=/{name} mapped=1 N0=1 kernelpagesize_kB=4\n".split("\n")[:1]))
    assert sums.by_kind == {"file": {0: 4 * KIB}}


def test_a_file_name_with_a_foreign_line_end_does_not_break_its_process(tmp_path: Path) -> None:
    folder = tmp_path / "proc/7"
    folder.mkdir(parents=True)
    odd = "7f00 default file=/a\x0cb\x85c\u2028d\re mapped=1 N0=1 kernelpagesize_kB=4\n"
    (folder / "numa_maps").write_bytes(odd.encode() + b"7f01 default anon=2 N1=2 kernelpagesize_kB=4\n")
    assert added_up(numa_maps.read(Host(tmp_path), 7)).by_kind == {"file": {0: 4 * KIB}, "anon": {1: 8 * KIB}}


def test_sums_of_a_real_process_are_those_of_its_lines(captured: CapturedHost) -> None:
    """602 is the process with 16 MiB of huge pages on node 2."""
    sums = added_up(numa_maps.read(captured("kubernetes-four-nodes"), 602))
    assert sums.by_kind["hugetlb"] == {2: 16 * MIB}
    assert sums.by_page_size[2 * MIB] == {2: 16 * MIB}
    assert set(sums.by_policy) == {"default"}
    assert sum(sums.by_kind["file"].values()) == (1 + 121 + 38 + 4 + 3) * 4 * KIB


def test_kinds_policies_and_page_sizes_are_three_views_of_the_same_bytes(captured: CapturedHost) -> None:
    for pid in (301, 302):
        sums = added_up(numa_maps.read(captured("huge-pages"), pid))
        totals = {
            sum(sum(by_node.values()) for by_node in view.values())
            for view in (sums.by_kind, sums.by_policy, sums.by_page_size)
        }
        assert len(totals) == 1


def test_processes_are_added_up() -> None:
    first = parse(["7f00 bind:0 anon=1 N0=1 kernelpagesize_kB=4"])
    second = ["7f00 bind:0 anon=1 N0=2 N1=4 kernelpagesize_kB=4", "7f01 default huge N1=1 kernelpagesize_kB=2048"]
    sums = added_up(first, parse(second))
    assert sums.by_policy == {"bind:0": {0: 12 * KIB, 1: 16 * KIB}, "default": {1: 2 * MIB}}
    assert sums.by_page_size == {4 * KIB: {0: 12 * KIB, 1: 16 * KIB}, 2 * MIB: {1: 2 * MIB}}


def test_a_process_without_mappings_adds_nothing() -> None:
    assert added_up(parse([])).by_kind == {}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "7f00",
        "default N0=1",
        "7f00  default",
        "xyz default",
        "7f" * 9 + " default",
        "7f00 default N0=x",
        "7f00 default N0=",
        "7f00 default N0=1 kernelpagesize_kB=\u0664",
        "7f00 default N0=" + "9" * 20,
    ],
)
def test_a_line_of_another_form_is_refused_and_shown(line: str) -> None:
    with pytest.raises(ParseError, match="not a numa_maps line: "):
        parse_line(line)


@given(st.text(max_size=120) | st.text(alphabet="7f0 defaultbin:=N1234kagesiz_BN\n", max_size=120))
def test_any_line_is_read_or_refused(text: str) -> None:
    try:
        mapping = parse_line(text)
    except ParseError:
        return
    assert all(size >= 0 for size in mapping.bytes_by_node.values())


@given(
    st.sampled_from(["default", "bind:0-1", "prefer (many):0", "weighted interleave=static:0-3"]),
    st.dictionaries(st.integers(0, 1023), st.integers(1, 1 << 40), max_size=6),
    st.sampled_from([4, 64, 2048, 1 << 20]),
)
def test_any_placement_comes_back(policy: str, pages: dict[int, int], kib: int) -> None:
    fields = "".join(f" N{node}={count}" for node, count in pages.items())
    mapping = parse_line(f"7f0012345000 {policy} anon=1 dirty=1{fields} kernelpagesize_kB={kib}")
    assert mapping == numa_maps.Mapping(
        0x7F0012345000, policy, "anon", kib * KIB, {node: count * kib * KIB for node, count in pages.items()}
    )


def test_the_policy_of_a_thread_is_that_of_the_text_of_its_program(tmp_path: Path) -> None:
    """A Java heap is below the text, and has policies of its own."""
    folder = tmp_path / "proc/7/task/9"
    folder.mkdir(parents=True)
    heap = "".join(
        f"{0x80000000 + (number << 21):x} interleave:0-1 anon=512 N0=512 kernelpagesize_kB=4\n" for number in range(40)
    )
    text = "55a0 prefer (many):0-1 file=/usr/bin/java mapped=2 N0=2 kernelpagesize_kB=4\n"
    (folder / "numa_maps").write_text(heap + text + "7f00 bind:0 anon=1 N0=1 kernelpagesize_kB=4\n")
    assert numa_maps.read_policy(Host(tmp_path), 7, 9) == "prefer (many):0-1"


def test_little_of_numa_maps_is_read_for_the_policy_of_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "proc/7/task/9"
    folder.mkdir(parents=True)
    line = "7f00 bind:0 anon=1 N0=1 kernelpagesize_kB=4\n"
    (folder / "numa_maps").write_text(line * 100_000)
    asked: list[int] = []
    read = os.read

    def counted(file: int, size: int) -> bytes:
        asked.append(size)
        return read(file, size)

    monkeypatch.setattr(os, "read", counted)
    assert numa_maps.read_policy(Host(tmp_path), 7, 9) == "bind:0"
    assert sum(asked) == 64 << 10
    (folder / "numa_maps").write_text(
        "55a0 local file=/usr/bin/python3 mapped=2 N0=2 kernelpagesize_kB=4\n" + line * 100
    )
    asked.clear()
    assert numa_maps.read_policy(Host(tmp_path), 7, 9) == "local"
    assert sum(asked) == 128


def test_a_kernel_thread_has_no_policy(tmp_path: Path) -> None:
    folder = tmp_path / "proc/7/task/9"
    folder.mkdir(parents=True)
    (folder / "numa_maps").write_text("")
    assert numa_maps.read_policy(Host(tmp_path), 7, 9) is None


LINES = """\
55d0c5a00000-55d0c5a28000 r--p 00000000 fe:01 1311085                    /usr/bin/bash
7f5a2c000000-7f5a2c021000 rw-p 00000000 00:00 0 
7f5a40000000-7f5a42000000 rw-s 00001000 00:1a 17                         /dev/shm/a b\\012c (deleted)
7f5a50000000-7f5a50001000 r--s 00000000 00:01 2049                       /memfd:x (deleted)
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
"""  # noqa: W291 (as the kernel prints it)


def test_only_shared_mappings_are_kept_with_the_part_of_the_file_that_they_map() -> None:
    assert maps.parse(LINES) == {
        0x7F5A40000000: SharedMapping(0x1000, 0x2001000, "00:1a", 17),
        0x7F5A50000000: SharedMapping(0, 0x1000, "00:01", 2049),
    }


def test_a_line_of_another_form_is_refused_with_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "proc/7"
    folder.mkdir(parents=True)
    (folder / "maps").write_text("7f00 rw-s 0\n")
    with pytest.raises(ParseError, match=r"proc/7/maps: not a maps line: '7f00 rw-s 0'"):
        maps.read(Host(tmp_path), 7)


def test_devices_of_a_tmpfs_are_named_as_in_maps() -> None:
    mounts = (
        "22 27 0:5 / /dev rw,nosuid - devtmpfs udev rw\n"
        "26 24 0:26 / /dev/shm rw shared:4 - tmpfs tmpfs rw\n"
        "27 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw\n"
        "31 27 0:300 / /a\\040-\\040tmpfs rw master:1 - overlay overlay rw\n"
        "32 27 x:y / /odd rw - tmpfs tmpfs rw\n"
    )
    assert devices_in_memory(mounts) == {"00:05", "00:1a"}


@given(st.text(max_size=120) | st.text(alphabet="7f0-rwxsp :1a/\n", max_size=120))
def test_any_maps_text_is_read_or_refused(text: str) -> None:
    try:
        found = maps.parse(text)
    except ParseError:
        return
    assert all(one.begin >= 0 for one in found.values())


@given(st.text(max_size=120))
def test_any_mounts_are_read(text: str) -> None:
    assert all(":" in device for device in devices_in_memory(text))
