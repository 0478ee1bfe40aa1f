"""maps: which mappings are shared, and which mounts keep their files in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError
from numaudit.kernel.host import Host
from numaudit.kernel.memory import shared_maps
from numaudit.kernel.memory.shared_maps import SharedMapping, devices_in_memory, parse

LINES = """\
55d0c5a00000-55d0c5a28000 r--p 00000000 fe:01 1311085                    /usr/bin/bash
7f5a2c000000-7f5a2c021000 rw-p 00000000 00:00 0 
7f5a40000000-7f5a42000000 rw-s 00001000 00:1a 17                         /dev/shm/a b\\012c (deleted)
7f5a50000000-7f5a50001000 r--s 00000000 00:01 2049                       /memfd:x (deleted)
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
"""  # noqa: W291 (as the kernel prints it)


def test_only_shared_mappings_are_kept_with_the_part_of_the_file_that_they_map() -> None:
    assert parse(LINES) == {
        0x7F5A40000000: SharedMapping(0x1000, 0x2001000, "00:1a", 17),
        0x7F5A50000000: SharedMapping(0, 0x1000, "00:01", 2049),
    }


def test_a_line_of_another_form_is_refused_with_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "proc/7"
    folder.mkdir(parents=True)
    (folder / "maps").write_text("7f00 rw-s 0\n")
    with pytest.raises(ParseError, match=r"proc/7/maps: not a maps line: '7f00 rw-s 0'"):
        shared_maps.read(Host(tmp_path), 7)


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
        found = parse(text)
    except ParseError:
        return
    assert all(one.begin >= 0 for one in found.values())


@given(st.text(max_size=120))
def test_any_mounts_are_read(text: str) -> None:
    assert all(":" in device for device in devices_in_memory(text))
