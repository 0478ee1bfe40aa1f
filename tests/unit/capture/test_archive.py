"""--root takes the archive that capture writes, and no other."""

from __future__ import annotations

import io
import lzma
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_process import PATIENCE
from documents import without_times
from numaudit.capture import archive
from numaudit.capture.archive import unpacked
from numaudit.capture.tree import capture
from numaudit.cli.main import call
from numaudit.errors import InputError, Unavailable
from numaudit.kernel.host import Host

CapturedHost = Callable[[str], Host]
Entry = tuple[str, bytes | str]
"""Path and content, or the type of tar entry with what it links to: `sym:TARGET`, `hard:TARGET`, `fifo`, `chr`."""
TYPES = {"sym": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "fifo": tarfile.FIFOTYPE, "chr": tarfile.CHRTYPE,
    "dir": tarfile.DIRTYPE}  # fmt: skip
NODE = ("t/sys/devices/system/node/online", b"0\n")


@pytest.fixture(autouse=True)
def space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Where archives are unpacked; nothing is left there."""
    folder = tmp_path / "space"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def _pack(file: Path, *entries: Entry) -> Path:
    with tarfile.open(file, "w:xz") as tar:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                kind, _, entry.linkname = content.partition(":")
                entry.type = TYPES[kind]
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return file


def _document(capsys: pytest.CaptureFixture[str], verb: str, root: Path) -> object:
    """Without the times, and without the folder: some messages name that."""
    assert call([verb, "--root", str(root), "-o", "json"]) == (verb == "doctor")
    folder = re.escape(str(root)) if root.is_dir() else rf"{tempfile.tempdir}/numaudit-\w+/[\w-]+"
    return without_times(re.sub(folder, "ROOT", capsys.readouterr().out))


@pytest.mark.parametrize("verb", ["report", "topology", "doctor"])
@pytest.mark.parametrize("name", ["kubernetes-four-nodes", "systemd-crio", "cgroup-v1"])
def test_an_archive_says_what_its_folder_says(
    capsys: pytest.CaptureFixture[str], captured: CapturedHost, tmp_path: Path, name: str, verb: str
) -> None:
    capture(captured(name), tmp_path / "host.tar.xz")
    assert _document(capsys, verb, tmp_path / "host.tar.xz") == _document(capsys, verb, captured(name).root)


def test_the_checkpoints_of_an_archive_are_verified(capsys: pytest.CaptureFixture[str], captured: CapturedHost) -> None:
    packed = Path(__file__).parents[2] / "fixtures/kubernetes-four-nodes.tar.xz"
    assert call(["state", "verify", "--root", str(packed)]) == 0
    assert "memory_manager_state" in capsys.readouterr().out


def test_an_archive_through_a_pipe_needs_no_file(captured: CapturedHost, tmp_path: Path) -> None:
    capture(captured("huge-pages"), tmp_path / "a.tar.xz")
    program = "import sys; from numaudit.cli.main import call; sys.exit(call(['topology', '--root', '/dev/stdin']))"
    with subprocess.Popen(["cat", tmp_path / "a.tar.xz"], stdout=subprocess.PIPE) as cat:
        done = subprocess.run([sys.executable, "-c", program], stdin=cat.stdout, capture_output=True, text=True)  # noqa: PLW1510
    assert (done.returncode, done.stderr) == (0, "")
    assert "HUGE PAGES" in done.stdout


def test_links_that_stay_inside_are_kept_and_folders_may_be_packed_without_a_name(tmp_path: Path) -> None:
    file = _pack(
        tmp_path / "a.tar.xz",
        ("./", "dir"), ("./sys/a", b"1"), ("./sys/below/b", "sym:../a"), ("./sys/c", "hard:sys/a"),
        ("./sys/none", "sym:x"), ("./sys/empty", "dir"), ("./sys/a name with \u00e9 \udcff", b"2"),
    )  # fmt: skip
    with unpacked(file) as root:
        assert (root / "sys/below/b").readlink() == Path("../a")
        assert (root / "sys/below/b").read_bytes() == (root / "sys/c").read_bytes() == b"1"
        assert (root / "sys/none").is_symlink()
        assert list((root / "sys/empty").iterdir()) == []
        assert (root / os.fsdecode(b"sys/a name with \xc3\xa9 \xff")).read_bytes() == b"2"
        assert (root.stat().st_mode & 0o777) == 0o700


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("/etc/passwd", b"x")], "the path '/etc/passwd' leads out of it"),
        ([("t/../../x", b"x")], r"the path 't/../../x' leads out of it"),
        ([("..", "dir")], "the path '..' leads out of it"),
        ([("t/l", "sym:/etc")], "the link 't/l' leads out of it, to '/etc'"),
        ([("t/l", "sym:../..")], "the link 't/l' leads out of it"),
        ([("a/b/l", "sym:../.."), ("a/b/m", "sym:l/..")], "the link 'a/b/m' leads out of it"),
        ([("a", "sym:."), ("b", "sym:a/..")], "the link 'b' leads out of it"),
        ([("t/l", "hard:/etc/passwd")], "the path '/etc/passwd' leads out of it"),
        ([("t/l", "hard:../../etc/passwd")], "leads out of it"),
        ([("t/l", "hard:t/none")], "No such file or directory"),
        ([("t/l", "sym:/tmp"), ("t/l/x", b"x")], "File exists"),
        ([("t/x", b"x"), ("t/x", b"y")], "File exists"),
        ([("t/x", b"x"), ("t/x/y", b"y")], "Not a directory|File exists"),
        ([("t/p", "fifo")], "'t/p' is not a file, folder or link"),
        ([("t/null", "chr")], "'t/null' is not a file, folder or link"),
        ([("t/" + "x" * 300, b"x")], "File name too long"),
        ([("t/readme", b"x")], "holds neither proc nor sys, so it is not a captured tree"),
        ([], "empty file|neither proc nor sys"),
    ],
)
def test_what_no_capture_holds_is_refused(tmp_path: Path, entries: list[Entry], message: str) -> None:
    inside = [NODE] if message.startswith("holds") or not entries else [NODE, *entries]
    file = _pack(tmp_path / "a.tar.xz", *(entries if inside == [NODE] else inside))
    with pytest.raises(InputError, match=message) as refusal, unpacked(file):
        pass
    assert str(refusal.value).startswith(f"--root {file}: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.xz", "space"]


def _flip(data: bytes) -> bytes:
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[: len(data) // 2], r"the archive is damaged \(it ends too early\); copy it again"),
        (lambda data: data[:-4], "it ends too early"),
        (lambda data: data[:9], "it ends too early"),
        (_flip, "the archive is damaged"),
        (lambda data: data + b"x", "something follows its end"),
        (lambda data: b"", "the file is empty"),
        (lambda data: b"PK\3\4" + data, "is neither a folder nor a .tar.xz archive"),
        (lzma.decompress, "is neither a folder nor a .tar.xz archive"),
        (lambda data: lzma.compress(b"{}"), "the archive is damaged"),
        (lambda data: lzma.compress(lzma.decompress(data)[:5000]), "the archive is damaged"),
    ],
)
def test_a_damaged_or_foreign_file_is_named(
    capsys: pytest.CaptureFixture[str], captured: CapturedHost, tmp_path: Path, damage: Callable[[bytes], bytes],
    message: str,
) -> None:  # fmt: skip
    file = tmp_path / "a.tar.xz"
    capture(captured("huge-pages"), file)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(InputError, match=message), unpacked(file):
        pass
    assert call(["report", "--root", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"numaudit: --root {file}: ")


def test_an_archive_of_too_many_bytes_or_entries_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(archive, "LARGEST", 8 << 20)
    monkeypatch.setattr(archive, "MOST_ENTRIES", 100)
    bomb = _pack(tmp_path / "big.tar.xz", NODE, ("t/proc/big", bytes(9 << 20)))
    assert bomb.stat().st_size < 10_000
    many = _pack(tmp_path / "many.tar.xz", NODE, *((f"t/proc/{number}", b"") for number in range(100)))
    for file, message in ((bomb, "holds more than 8 MiB"), (many, "holds more than 100 entries")):
        with pytest.raises(InputError, match=message), unpacked(file):
            pass


def test_an_archive_of_folders_in_folders_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    """The fixture says that nothing is left of the file that came before."""
    for levels in (101, 1900):
        file = _pack(tmp_path / "deep.tar.xz", NODE, ("t/proc/big", bytes(1 << 20)), ("a/" * levels, "dir"))
        with pytest.raises(InputError, match="holds folders in more than 100 folders"), unpacked(file):
            pass
    with unpacked(_pack(tmp_path / "deep.tar.xz", NODE, ("t/" + "a/" * 98 + "x", b"1"))) as root:
        assert (root / ("a/" * 98) / "x").read_bytes() == b"1"


def test_a_name_of_many_megabytes_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "a.tar.xz"
    with tarfile.open(file, "w:xz", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo("t/x")
        entry.pax_headers = {"comment": "x" * (2 << 20)}
        tar.addfile(entry)
    with pytest.raises(InputError, match=r"an entry's name has \d{7} bytes"), unpacked(file):
        pass


def test_no_place_for_temporary_folders_is_reported(
    monkeypatch: pytest.MonkeyPatch, captured: CapturedHost, tmp_path: Path
) -> None:
    file = _pack(tmp_path / "a.tar.xz", NODE)
    monkeypatch.setattr("tempfile.tempdir", "/none")
    monkeypatch.setattr("numaudit.capture.archive._SHARED_MEMORY", "/none")
    message = "cannot make a temporary folder: No such file or directory; set TMPDIR to another folder"
    with pytest.raises(Unavailable, match=message), unpacked(file):
        pass
    with pytest.raises(Unavailable, match=message):
        capture(captured("huge-pages"), tmp_path / "b.tar.xz")
    assert not (tmp_path / "b.tar.xz").exists()


def test_where_only_memory_can_be_written_to_captures_are_packed_there(
    monkeypatch: pytest.MonkeyPatch, captured: CapturedHost, tmp_path: Path
) -> None:
    """As in a pod whose root is read-only: /tmp is not to be written to, /dev/shm is."""
    memory = tmp_path / "shm"
    memory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", "/none")
    monkeypatch.setattr("numaudit.capture.archive._SHARED_MEMORY", str(memory))
    capture(captured("huge-pages"), tmp_path / "a.tar.xz")
    with unpacked(tmp_path / "a.tar.xz") as tree:
        assert tree.is_relative_to(memory)
    assert list(memory.iterdir()) == []


def test_no_space_to_unpack_says_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, space: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(Unavailable) as error, unpacked(_pack(tmp_path / "a.tar.xz", NODE)):
        pass
    assert str(error.value) == (
        f"cannot unpack {tmp_path}/a.tar.xz to {space}: No space left on device; TMPDIR names a folder with more space"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_ended_removes_what_it_unpacked(
    captured: CapturedHost, tmp_path: Path, number: signal.Signals
) -> None:
    """The space is empty afterwards, or the fixture says so."""
    capture(captured("huge-pages"), tmp_path / "a.tar.xz")
    program = (
        "import os, sys; from numaudit.cli import main; from numaudit.kernel import node; "
        f"node.read_machine = lambda host: (host.root / 'proc').stat() and os.kill(os.getpid(), {int(number)}); "
        "sys.exit(main.call(['topology', '--root', 'a.tar.xz']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path / "space")},
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\n")


@given(st.binary(max_size=40), st.integers(0, 5000), st.booleans())
def test_any_damaged_tar_file_is_refused_or_read(patch: bytes, at: int, inside: bool) -> None:
    data = bytearray(lzma.decompress(_SMALL) if inside else _SMALL)
    at %= len(data)
    data[at : at + len(patch)] = patch
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(lzma.compress(bytes(data), preset=0) if inside else bytes(data))
        try:
            with unpacked(Path(file.name)):
                pass
        except InputError as refusal:
            assert str(refusal).startswith(f"--root {file.name}: ")


def _small() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", format=tarfile.PAX_FORMAT) as tar:
        for name in ("t/proc/\u00e9" + "x" * 120, "t/sys/a"):
            entry = tarfile.TarInfo(name)
            entry.size = 5
            tar.addfile(entry, io.BytesIO(b"12345"))
        link = tarfile.TarInfo("t/sys/l")
        link.type, link.linkname = tarfile.SYMTYPE, "a"
        tar.addfile(link)
    return packed.getvalue()


_SMALL = _small()
