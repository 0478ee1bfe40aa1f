"""--root takes the archive that capture writes, and those in which people collect hosts; none leaves its folder."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import time
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documentation.documents import without_times
from numaudit.capture import archive, new_folder
from numaudit.capture.archive import unpacked
from numaudit.capture.tree import capture
from numaudit.cli.main import call
from numaudit.errors import InputError, Unavailable
from numaudit.kernel.host import Host
from processes.agent_process import PATIENCE

CapturedHost = Callable[[str], Host]
Entry = tuple[str, bytes | str]
"""Path and content, or the type of tar entry with what it links to: `sym:TARGET`, `hard:TARGET`, `fifo`, `chr`."""
TYPES = {"sym": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "fifo": tarfile.FIFOTYPE, "chr": tarfile.CHRTYPE,
    "dir": tarfile.DIRTYPE}  # fmt: skip
MODES: dict[str, Literal["w", "w:xz", "w:gz", "w:bz2"]] = {
    ".tar": "w",
    ".xz": "w:xz",
    ".gz": "w:gz",
    ".tgz": "w:gz",
    ".bz2": "w:bz2",
}
NODE = ("t/sys/devices/system/node/online", b"0\n")


@pytest.fixture(autouse=True)
def space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Where archives are unpacked; nothing is left there."""
    folder = tmp_path / "space"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="module")
def packed(captured: CapturedHost, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A captured host, to be read only."""
    file = tmp_path_factory.mktemp("packed") / "a.tar.xz"
    capture(captured("huge-pages"), file)
    return file


def _pack(file: Path, *entries: Entry) -> Path:
    """By the file's suffix."""
    if file.suffix == ".zip":
        return _zip(file, *entries)
    with tarfile.open(file, MODES[file.suffix]) as tar:
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


def _zip(file: Path, *entries: Entry) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in entries:
            kind = content.partition(":")[0] if isinstance(content, str) else "file"
            entry = zipfile.ZipInfo(name + "/" * (kind == "dir"))
            entry.external_attr = {"sym": stat.S_IFLNK, "fifo": stat.S_IFIFO, "dir": stat.S_IFDIR}.get(kind, 0) << 16
            data = content if isinstance(content, bytes) else content.partition(":")[2]
            packed.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return file


def _document(capsys: pytest.CaptureFixture[str], verb: str, root: Path) -> object:
    """Without the times, and without the folder: some messages name that."""
    assert call([verb, "--root", str(root), "-o", "json"]) == (verb == "doctor")
    folder = re.escape(str(root)) if root.is_dir() else rf"{tempfile.tempdir}/numaudit-\w+/[\w-]+"
    return without_times(re.sub(folder, "ROOT", capsys.readouterr().out))


@pytest.mark.parametrize("name", ["kubernetes-four-nodes", "systemd-crio", "cgroup-v1"])
def test_an_archive_says_what_its_folder_says(
    capsys: pytest.CaptureFixture[str], captured: CapturedHost, tmp_path: Path, name: str
) -> None:
    capture(captured(name), tmp_path / "host.tar.xz")
    for verb in ("report", "topology", "doctor"):
        said = _document(capsys, verb, captured(name).root)
        assert _document(capsys, verb, tmp_path / "host.tar.xz") == said, verb


def test_the_checkpoints_of_an_archive_are_verified(capsys: pytest.CaptureFixture[str], captured: CapturedHost) -> None:
    packed = Path(__file__).parents[2] / "fixtures/kubernetes-four-nodes.tar.xz"
    assert call(["state", "verify", "--root", str(packed)]) == 0
    assert "memory_manager_state" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--config", "--config-dir", "--root-dir"])
def test_a_path_in_an_archive_never_leads_to_a_file_of_its_reader(
    capsys: pytest.CaptureFixture[str], fixtures: Path, tmp_path: Path, flag: str
) -> None:
    host, own = tmp_path / "host", tmp_path / "own"
    shutil.copytree(fixtures / "kubernetes-four-nodes", host, symlinks=True)
    own.mkdir()
    settings = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ntopologyManagerPolicy: "
    (own / "own.conf").write_text(f"{settings}restricted\n")
    shutil.copy(host / "var/lib/kubelet/memory_manager_state", own)
    shutil.rmtree(host / "var/lib/kubelet")
    shutil.rmtree(host / "numaudit", ignore_errors=True)
    named = "/.." * 30 + str(own) + ("/own.conf" if flag == "--config" else "")
    (host / "proc/347/cmdline").write_bytes(f"kubelet\0{flag}={named}\0".encode())
    with (tmp_path / "a.tar.xz").open("wb") as file:
        archive.pack(host, file, "host")
    assert call(["report", "-o", "json", "--root", str(tmp_path / "a.tar.xz")]) in (0, 1)
    found = json.loads(capsys.readouterr().out)
    assert "restricted" not in str(found) and found["summary"]["promised"] == 0


@pytest.mark.parametrize("name", ["kmsg", "version"])
def test_a_file_of_the_kernel_is_no_archive_and_is_not_waited_for(name: str) -> None:
    if not os.access(f"/proc/{name}", os.R_OK):
        pytest.skip(f"/proc/{name} is for root alone")
    program = f"from numaudit.cli.main import call; raise SystemExit(call(['report', '--root', '/proc/{name}']))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (2, "") and "the file is empty" in done.stderr


def test_an_archive_through_a_pipe_needs_no_file(packed: Path) -> None:
    program = "import sys; from numaudit.cli.main import call; sys.exit(call(['topology', '--root', '/dev/stdin']))"
    with subprocess.Popen(["cat", packed], stdout=subprocess.PIPE) as cat:
        done = subprocess.run([sys.executable, "-c", program], stdin=cat.stdout, capture_output=True, text=True)  # noqa: PLW1510
    assert (done.returncode, done.stderr) == (0, "")
    assert "HUGE PAGES" in done.stdout


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tgz", ".tar.bz2", ".zip"])
def test_an_archive_may_be_packed_in_any_usual_way(
    capsys: pytest.CaptureFixture[str], captured: CapturedHost, tmp_path: Path, suffix: str
) -> None:
    root = captured("memory-only-node").root
    files = [one for one in sorted(root.rglob("*")) if one.is_symlink() or not one.is_dir()]
    entries = [(f"host/{one.relative_to(root)}", f"sym:{one.readlink()}" if one.is_symlink() else one.read_bytes())
        for one in files]  # fmt: skip
    file = _pack(tmp_path / f"a{suffix}", *entries)
    assert _document(capsys, "report", file) == _document(capsys, "report", root)


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_streams_that_follow_each_other_are_one_file(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    """As pbzip2 and pigz write them."""
    plain = _pack(tmp_path / "a.tar", NODE, ("t/proc/a", bytes(300_000))).read_bytes()
    file = tmp_path / f"b.tar.{suffix}"
    file.write_bytes(compress(plain[:1000]) + compress(plain[1000:200_000]) + compress(plain[200_000:]))
    with unpacked(file) as root:
        assert (root / "proc/a").read_bytes() == bytes(300_000)


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
def test_devices_and_pipes_are_left_out(tmp_path: Path, suffix: str) -> None:
    """A sosreport has the devices to which masked units are linked."""
    with unpacked(_pack(tmp_path / f"a{suffix}", NODE, ("t/dev/p", "fifo"))) as root:
        assert [one.name for one in (root / "dev").iterdir()] == []
    if suffix != ".zip":
        with unpacked(_pack(tmp_path / "b.tar", NODE, ("t/dev/null", "chr"))) as root:
            assert not (root / "dev/null").exists()


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


@pytest.mark.parametrize("suffix", [".tar.xz", ".zip"])
@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("/etc/passwd", b"x")], "the path '/etc/passwd' leads out of it"),
        ([("t/../../x", b"x")], r"the path 't/../../x' leads out of it"),
        ([("..", "dir")], "the path '../?' leads out of it"),
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
        ([("t/" + "x" * 300, b"x")], "File name too long"),
        ([("t/readme", b"x")], "holds neither proc nor sys, so it is not a captured tree"),
        ([], "is empty"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_what_no_capture_holds_is_refused(tmp_path: Path, suffix: str, entries: list[Entry], message: str) -> None:
    if suffix == ".zip" and any(str(content).startswith("hard:") for _, content in entries):
        pytest.skip("a zip archive has no hard links")
    inside = [NODE] if message.startswith("holds") or not entries else [NODE, *entries]
    file = _pack(tmp_path / f"a{suffix}", *(entries if inside == [NODE] else inside))
    with pytest.raises(InputError, match=message) as refusal, unpacked(file):
        pass
    assert str(refusal.value).startswith(f"--root {file}: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a{suffix}", "space"]


def _flip(data: bytes) -> bytes:
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[: len(data) // 2], r"the archive is damaged \(it ends too early\); copy it again"),
        (lambda data: data[:-4], "it ends too early"),
        (lambda data: data[:9], "it ends too early"),
        (_flip, "the archive is damaged"),
        (lambda data: data + b"x", "the archive is damaged"),
        (lambda data: b"", "the file is empty"),
        (lambda data: b"PK\3\4" + data, "the archive is damaged"),
        (lambda data: b"\x28\xb5\x2f\xfd" + data, r"is neither a folder nor an archive \(.tar, .tar.xz, .tar.gz, "),
        (lambda data: gzip.compress(lzma.decompress(data))[:-9], "it ends too early"),
        (lambda data: _flip(gzip.compress(lzma.decompress(data))), "the archive is damaged"),
        (lambda data: bz2.compress(lzma.decompress(data))[:-9], "it ends too early"),
        (lambda data: _flip(bz2.compress(lzma.decompress(data))), "the archive is damaged"),
        (lambda data: lzma.compress(b"{}"), "the archive is damaged"),
        (lambda data: lzma.compress(lzma.decompress(data)[:5000]), "the archive is damaged"),
    ],
)
def test_a_damaged_or_foreign_file_is_named(
    capsys: pytest.CaptureFixture[str], packed: Path, tmp_path: Path, damage: Callable[[bytes], bytes], message: str
) -> None:
    file = tmp_path / "a.tar.xz"
    file.write_bytes(damage(packed.read_bytes()))
    with pytest.raises(InputError, match=message), unpacked(file):
        pass
    assert call(["report", "--root", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"numaudit: --root {file}: ")


def test_an_archive_of_too_many_bytes_or_entries_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(archive, "LARGEST", 8 << 20)
    monkeypatch.setattr(archive, "MOST_ENTRIES", 100)
    for suffix in (".tar.xz", ".tar.gz", ".tar.bz2", ".zip", ".tar"):
        bomb = _pack(tmp_path / f"big{suffix}", NODE, ("t/proc/big", bytes(9 << 20)))
        assert suffix == ".tar" or bomb.stat().st_size < 15_000
        many = _pack(tmp_path / f"many{suffix}", NODE, *((f"t/proc/{number}", b"") for number in range(100)))
        for file, message in ((bomb, "holds more than 8 MiB"), (many, "holds more than 100 entries")):
            with pytest.raises(InputError, match=message), unpacked(file):
                pass
        with unpacked(_pack(tmp_path / f"fits{suffix}", NODE, ("t/proc/big", bytes(8_300_000)))):
            pass


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_sizes_that_a_zip_archive_claims_are_not_believed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = _pack(tmp_path / "a.zip", NODE, ("t/proc/big", bytes(1 << 20)))
    file.write_bytes(file.read_bytes().replace(struct.pack("<I", 1 << 20), struct.pack("<I", 1000)))
    with pytest.raises(InputError, match="the archive is damaged"), unpacked(file):
        pass
    monkeypatch.setattr(archive, "_LARGEST_DIRECTORY", 100)
    with (
        pytest.raises(InputError, match=r"has a directory of \d+ bytes"),
        unpacked(_pack(tmp_path / "b.zip", NODE, NODE)),
    ):
        pass


def test_a_zip_archive_that_is_encrypted_or_oddly_compressed_is_refused(tmp_path: Path) -> None:
    file = _pack(tmp_path / "a.zip", NODE)
    data, at = bytearray(file.read_bytes()), file.read_bytes().index(b"PK\1\2")
    data[at + 8] |= 1
    file.write_bytes(data)
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr(*NODE)
    for one in (file, tmp_path / "b.zip"):
        with (
            pytest.raises(InputError, match=r"'t/sys/.*/online' is encrypted, or compressed by a rare method"),
            unpacked(one),
        ):
            pass


def test_a_zip_archive_needs_a_file(tmp_path: Path) -> None:
    file = _pack(tmp_path / "a.zip", NODE)
    program = "import sys; from numaudit.cli.main import call; sys.exit(call(['topology', '--root', '/dev/stdin']))"
    with subprocess.Popen(["cat", file], stdout=subprocess.PIPE) as cat:
        done = subprocess.run([sys.executable, "-c", program], stdin=cat.stdout, capture_output=True, text=True)  # noqa: PLW1510
    assert (done.returncode, "a zip archive, which cannot be read from a pipe" in done.stderr) == (2, True)


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


def test_what_a_killed_command_unpacked_is_removed_by_the_next_one(tmp_path: Path, space: Path) -> None:
    file = _pack(tmp_path / "a.tar.xz", NODE)
    program = (
        "import os, signal, sys; from pathlib import Path; from numaudit.capture.archive import unpacked\n"
        "with unpacked(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = os.environ | {"TMPDIR": str(space)}
    done = subprocess.run([sys.executable, "-c", program, file], env=environment, check=False, timeout=PATIENCE)
    (left,) = space.iterdir()
    assert done.returncode == -signal.SIGKILL
    with unpacked(file):  # one of this minute may belong to a process that is about to lock it
        assert left.exists()
    os.utime(left, (0, time() - new_folder.YOUNG - 1))
    with unpacked(file) as tree:
        assert not left.exists()
        os.utime(tree.parent, (0, 0))
        with unpacked(file):
            assert tree.exists()


def test_no_place_for_temporary_folders_is_reported(
    monkeypatch: pytest.MonkeyPatch, captured: CapturedHost, tmp_path: Path
) -> None:
    file = _pack(tmp_path / "a.tar.xz", NODE)
    monkeypatch.setattr("tempfile.tempdir", "/none")
    monkeypatch.setattr("numaudit.capture.new_folder._SHARED_MEMORY", "/none")
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
    monkeypatch.setattr("numaudit.capture.new_folder._SHARED_MEMORY", str(memory))
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
def test_a_command_that_is_ended_removes_what_it_unpacked(packed: Path, tmp_path: Path, number: signal.Signals) -> None:
    """The space is empty afterwards, or the fixture says so."""
    program = (
        "import os, sys; from numaudit.cli import main; from numaudit.kernel import node; "
        f"node.read_machine = lambda host: (host.root / 'proc').stat() and os.kill(os.getpid(), {int(number)}); "
        f"sys.exit(main.call(['topology', '--root', {str(packed)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path / "space")},
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\n")


@given(st.binary(max_size=40), st.integers(0, 5000), st.sampled_from(["tar", "xz", "gz", "bz2", "zip"]))
def test_any_damaged_archive_is_refused_or_read(patch: bytes, at: int, form: str) -> None:
    data = bytearray(_SMALL[form])
    at %= len(data)
    data[at : at + len(patch)] = patch
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(bytes(data))
        try:
            with unpacked(Path(file.name)):
                pass
        except InputError as refusal:
            assert str(refusal).startswith(f"--root {file.name}: ")


def _small() -> dict[str, bytes]:
    packed, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar, zipfile.ZipFile(zipped, "w") as zip_:
        for name in ("t/proc/\u00e9" + "x" * 120, "t/sys/a"):
            entry = tarfile.TarInfo(name)
            entry.size = 5
            tar.addfile(entry, io.BytesIO(b"12345"))
            zip_.writestr(name, b"12345", zipfile.ZIP_DEFLATED)
        link = tarfile.TarInfo("t/sys/l")
        link.type, link.linkname = tarfile.SYMTYPE, "a"
        tar.addfile(link)
    plain = packed.getvalue()
    forms = {"xz": lzma.compress(plain), "gz": gzip.compress(plain), "bz2": bz2.compress(plain)}
    return {"tar": plain, "zip": zipped.getvalue(), **forms}


_SMALL = _small()
