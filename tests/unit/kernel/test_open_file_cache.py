"""Files that stay open between ticks: always their newest text, and none open longer than needed."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from numaudit.cli.main import call
from numaudit.kernel import open_file_cache
from numaudit.kernel.host import LARGEST_FILE
from numaudit.kernel.open_file_cache import OpenFileCache, open_files_allowed


def _open_files(folder: Path) -> list[str]:
    """Names of the files in this folder that this process has open."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = Path(entry.readlink())
        except OSError:
            continue
        if target.parent == folder:
            found.append(target.name)
    return sorted(found)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "abc":
        (tmp_path / name).write_text(f"first {name}")
    return tmp_path


def test_each_read_gives_the_text_of_that_moment(folder: Path) -> None:
    files = OpenFileCache(10)
    assert files.read(f"{folder}/a") == b"first a"
    (folder / "a").write_text("second")
    assert files.read(f"{folder}/a") == b"second"
    files.end_tick()
    (folder / "a").write_text("")
    assert files.read(f"{folder}/a") == b""
    assert _open_files(folder) == ["a"]
    files.close()
    assert _open_files(folder) == []


def test_a_second_tick_opens_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = OpenFileCache(10)
    files.read(f"{folder}/a")
    files.end_tick()
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("opened again"))
    assert files.read(f"{folder}/a") == b"first a"
    monkeypatch.undo()
    files.close()


def test_a_file_that_a_tick_did_not_read_is_closed_after_it(folder: Path) -> None:
    files = OpenFileCache(10)
    for name in "abc":
        files.read(f"{folder}/{name}")
    files.end_tick()
    files.read(f"{folder}/b")
    files.end_tick()
    assert _open_files(folder) == ["b"]
    files.close()


def test_nothing_stays_open_when_the_reader_goes(folder: Path) -> None:
    files = OpenFileCache(10)
    files.read(f"{folder}/a")
    files.end_tick()
    files.read(f"{folder}/b")
    assert _open_files(folder) == ["a", "b"]
    del files
    assert _open_files(folder) == []


def test_a_report_leaves_nothing_open(capsys: pytest.CaptureFixture[str], fixtures: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert call(["report", "--root", str(fixtures / "systemd-crio")]) == 0
    assert "/machine.slice" in capsys.readouterr().out
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_no_more_files_stay_open_than_allowed_and_all_are_read(folder: Path) -> None:
    files = OpenFileCache(2)
    for _ in range(3):
        assert [files.read(f"{folder}/{name}") for name in "abc"] == [b"first a", b"first b", b"first c"]
        assert len(_open_files(folder)) == 2
        files.end_tick()
    files.close()


def test_a_group_recreated_under_its_old_name_is_opened_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the file of a group that was removed fails with ENODEV, also when there is a new one of its name."""
    files = OpenFileCache(10)
    files.read(f"{folder}/a")
    (folder / "a").unlink()
    (folder / "a").write_text("new group")
    pread, failures = os.pread, [OSError(errno.ENODEV, os.strerror(errno.ENODEV))]

    def fail_once(descriptor: int, size: int, offset: int) -> bytes:
        if failures:
            raise failures.pop()
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", fail_once)
    assert files.read(f"{folder}/a") == b"new group"
    assert _open_files(folder) == ["a"]
    files.close()


def test_a_file_that_is_gone_or_no_file_leaves_nothing_open(folder: Path) -> None:
    files = OpenFileCache(10)
    with pytest.raises(FileNotFoundError):
        files.read(f"{folder}/none")
    (folder / "sub").mkdir()
    with pytest.raises(IsADirectoryError):
        files.read(f"{folder}/sub")
    os.mkfifo(folder / "pipe")
    with pytest.raises(OSError, match="seek"):
        files.read(f"{folder}/pipe")
    assert _open_files(folder) == []


@pytest.mark.parametrize("size", [16383, 16384, 16385, 100_000])
def test_a_file_of_any_size_is_read_whole(folder: Path, size: int) -> None:
    (folder / "a").write_bytes(b"x" * size)
    files = OpenFileCache(10)
    assert [len(files.read(f"{folder}/a")) for _ in range(2)] == [size, size]
    files.close()


def test_a_file_beyond_any_reason_is_refused(folder: Path) -> None:
    with (folder / "a").open("ab") as handle:
        handle.truncate(LARGEST_FILE + 1)
    files = OpenFileCache(10)
    with pytest.raises(OSError, match="larger than"):
        files.read(f"{folder}/a")
    files.close()


def test_the_soft_limit_is_raised_and_a_refusal_is_lived_with(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [1024, 4096]

    def set_limit(_: int, new: tuple[int, int]) -> None:
        limits[:] = new

    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    assert open_files_allowed() == 4096
    assert limits == [4096, 4096]
    limits[:] = [1024, resource.RLIM_INFINITY]
    assert open_files_allowed() == open_file_cache._ENOUGH
    assert limits == [open_file_cache._ENOUGH, resource.RLIM_INFINITY]

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no")

    limits[:] = [1024, 4096]
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert open_files_allowed() == 1024
