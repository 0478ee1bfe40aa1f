"""A captured tree gives the same report as the host did."""

from __future__ import annotations

import io
import os
import select
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import IO, Any, NoReturn

import pytest

from documentation.documents import without_times
from fixture_trees import FIXTURES
from numaudit.capture import tree
from numaudit.capture.archive import unpacked
from numaudit.capture.new_folder import filled
from numaudit.capture.tree import NOT_READ, capture
from numaudit.cli.main import call
from numaudit.errors import InputError, Unavailable
from numaudit.kernel import host as kernel_host
from numaudit.kernel.host import Host
from numaudit.kernel.origin import NOTE
from processes.agent_process import PATIENCE

CapturedHost = Callable[[str], Host]
HOSTS = sorted(sys.parent.name for sys in FIXTURES.glob("*/sys"))


def _program(tree: Path, target: str) -> str:
    """`numaudit capture TARGET` in a process of its own, on a host that is a tree."""
    return (
        "import sys; from pathlib import Path; from numaudit.cli import main; "
        "from numaudit.cli.observe import capture; "
        "from numaudit.kernel.host import Host; "
        f"capture.host = lambda _: Host.under(Path({str(tree)!r})); "
        f"sys.exit(main.call(['capture', '--duration', '0', {target!r}]))"
    )


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def _without_pods(node: Path, copy: Path) -> Path:
    """Half of its files, for tests of what its kubelet names."""
    return shutil.copytree(node, copy, symlinks=True, ignore=shutil.ignore_patterns("kubepods"))


def _report(capsys: pytest.CaptureFixture[str], root: Path) -> dict[str, Any]:
    assert call(["report", "--root", str(root), "-o", "json"]) == 0
    return without_times(capsys.readouterr().out.replace(str(root), "ROOT"))


@pytest.mark.parametrize("name", HOSTS)
def test_the_report_of_the_copy_is_that_of_the_host(
    capsys: pytest.CaptureFixture[str], fixtures: Path, tmp_path: Path, name: str
) -> None:
    summary = capture(Host.under(fixtures / name), tmp_path / "copy")
    files = [file for file in (tmp_path / "copy").rglob("*") if file.is_file()]
    copied = [file for file in files if file.name not in ("cgroup-inodes.txt", NOT_READ, NOTE)]
    assert (summary.files, summary.unread) == (len(copied), [])
    assert summary.bytes == sum(file.stat().st_size for file in copied)
    assert _report(capsys, tmp_path / "copy") == _report(capsys, fixtures / name)


def test_a_cpuset_hierarchy_with_groups_of_its_own_is_copied_too(
    capsys: pytest.CaptureFixture[str], fixtures: Path, tmp_path: Path
) -> None:
    host = shutil.copytree(fixtures / "cgroup-v1", tmp_path / "host")
    narrow = host / "sys/fs/cgroup/cpuset/shield/narrow"
    narrow.mkdir(parents=True)
    (narrow / "cpuset.effective_mems").write_text("1\n")
    (narrow / "cpuset.effective_cpus").write_text("3\n")
    (host / "proc/702/cgroup").write_text("3:cpuset:/shield/narrow\n2:memory:/system.slice/cron.service\n")
    capture(Host.under(host), tmp_path / "copy")
    before, after = _report(capsys, host), _report(capsys, tmp_path / "copy")
    (cron,) = [one for one in before["containers"] if one["path"] == "/system.slice/cron.service"]
    assert (cron["allowedMemoryNodes"], cron["allowedCpus"]) == ([1], "3")
    assert after == before


@pytest.mark.parametrize("name", ["memory-only-node", "tiered"])
def test_the_topology_of_the_copy_is_that_of_the_host(
    capsys: pytest.CaptureFixture[str], captured: CapturedHost, tmp_path: Path, name: str
) -> None:
    host = captured(name)
    capture(host, tmp_path / "copy")
    outputs = []
    for root in (host.root, tmp_path / "copy"):
        assert call(["topology", "--root", str(root), "-o", "json"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


def test_a_copy_keeps_cgroup_ids_and_no_environment(captured: CapturedHost, tmp_path: Path) -> None:
    host = captured("kubernetes-four-nodes")
    capture(host, tmp_path)
    ids = [(root / "cgroup-inodes.txt").read_text().splitlines() for root in (host.root, tmp_path)]
    assert sorted(ids[0]) == sorted(ids[1])
    assert not list(tmp_path.rglob("environ"))


def test_an_archive_holds_one_folder_with_the_same_report(
    capsys: pytest.CaptureFixture[str], captured: CapturedHost, tmp_path: Path
) -> None:
    host = captured("systemd-crio")
    capture(host, tmp_path / "node-a.tar.xz")
    with tarfile.open(tmp_path / "node-a.tar.xz") as archive:
        assert {name.partition("/")[0] for name in archive.getnames()} == {"node-a"}
        archive.extractall(tmp_path)
    assert _report(capsys, tmp_path / "node-a") == _report(capsys, host.root)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["node-a", "node-a.tar.xz"]


def test_files_that_are_not_there_are_no_failure(captured: CapturedHost, tmp_path: Path) -> None:
    host = captured("eight-nodes")
    summary = capture(host, tmp_path)
    assert not (host.proc / "vmstat").exists()
    assert not (tmp_path / "proc/vmstat").exists()
    assert summary.unread == []
    assert (tmp_path / NOT_READ).read_text() == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_what_may_not_be_read_is_named_with_the_reason_on_stderr_and_in_the_capture(fixtures: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        tree = shutil.copytree(fixtures / "eight-nodes", Path(folder) / "tree")
        closed = [tree / "proc" / name for name in ("2001/numa_maps", "2002/numa_maps", "version")]
        for path in closed:
            path.chmod(0)
        (tree / "var/log/pods").chmod(0o700)
        done = subprocess.run(
            [sys.executable, "-c", _program(tree, "copy")],
            capture_output=True, text=True, user=65534, group=65534, check=False, timeout=PATIENCE, cwd=folder,
        )  # fmt: skip
        listed = (Path(folder) / "copy" / NOT_READ).read_text()
    assert (done.returncode, done.stdout) == (0, "")
    assert listed.splitlines() == [
        "/proc/version: Permission denied",
        "/proc/2001/numa_maps: Permission denied",
        "/proc/2002/numa_maps: Permission denied",
        "/var/log/pods: Permission denied",
    ]
    assert done.stderr.splitlines()[1:] == [
        "4 could not be read (not-read.txt in the capture lists all):",
        "  /proc/version: Permission denied",
        "  /proc/2001/numa_maps and 1 more of that name: Permission denied",
        "  /var/log/pods: Permission denied",
        "run as root to capture the files whose permission is denied",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_kubelet_folder_that_only_root_may_enter_is_named_and_the_rest_copied(fixtures: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        tree = shutil.copytree(fixtures / "kubernetes-four-nodes", Path(folder) / "tree")
        (tree / "var/lib/kubelet").chmod(0o750)
        (tree / "numaudit").chmod(0o700)
        done = subprocess.run(
            [sys.executable, "-c", _program(tree, "copy.tar.xz")],
            capture_output=True, text=True, user=65534, group=65534, check=False, timeout=PATIENCE, cwd=folder,
        )  # fmt: skip
        with tarfile.open(Path(folder) / "copy.tar.xz") as archive:
            names = archive.getnames()
    assert (done.returncode, done.stdout) == (0, "")
    assert "  /var/lib/kubelet/memory_manager_state: Permission denied\n" in done.stderr
    assert "  /numaudit: Permission denied\n" in done.stderr
    assert "copy/sys/devices/system/node/online" in names


def test_a_capture_is_its_owners_alone(captured: CapturedHost, tmp_path: Path) -> None:
    capture(captured("memory-only-node"), tmp_path / "new/copy")
    capture(captured("memory-only-node"), tmp_path / "copy.tar.xz")
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes[tmp_path / "copy.tar.xz"] == 0o600
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    (tmp_path / "after").touch()
    assert stat.S_IMODE((tmp_path / "after").stat().st_mode) != 0o600


@pytest.mark.parametrize("target", ["new", "a/b/new", "empty"])
def test_a_folder_that_was_begun_is_removed_when_the_capture_fails(
    captured: CapturedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: str
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr("numaudit.kubelet.sources.recording.record", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        capture(captured("eight-nodes"), tmp_path / target)
    assert list(tmp_path.rglob("*")) == [tmp_path / "empty"]


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def test_a_capture_that_is_asked_to_end_leaves_nothing(fixtures: Path, tmp_path: Path) -> None:
    """SIGTERM comes while the archive is packed; the temporary folder goes too."""
    (tmp_path / "tmp").mkdir()
    program = (
        "import os, signal, tarfile; "
        "tarfile.TarFile.add = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM); "
        + _program(fixtures / "huge-pages", "a.tar.xz")
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\n")
    assert list(tmp_path.rglob("*")) == [tmp_path / "tmp"]


def test_the_command_says_what_it_copied_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, captured: CapturedHost, tmp_path: Path
) -> None:
    tree = captured("memory-only-node")
    monkeypatch.setattr("numaudit.cli.observe.capture.host", lambda _: tree)
    assert call(["capture", "--duration", "0", str(tmp_path / "copy")]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert " files, " in err
    assert str(tmp_path / "copy") in err
    assert err.count("\n") == 1


def test_a_dash_writes_the_archive_to_standard_output(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, captured: CapturedHost, tmp_path: Path
) -> None:
    tree = captured("systemd-crio")
    monkeypatch.setattr("numaudit.cli.observe.capture.host", lambda _: tree)
    monkeypatch.chdir(tmp_path)
    assert call(["capture", "--duration", "0", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert b" in standard output\n" in err
    assert list(tmp_path.iterdir()) == []
    with tarfile.open(fileobj=io.BytesIO(out)) as archive:
        assert {name.partition("/")[0] for name in archive.getnames()} == {"capture"}
        archive.extractall(tmp_path)
    capture(tree, tmp_path / "folder")
    assert _tree(tmp_path / "capture") == _tree(tmp_path / "folder")


def _run(program: str, output: IO[bytes]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)


def test_an_archive_is_never_written_to_a_terminal(fixtures: Path) -> None:
    terminal, user = os.openpty()
    program = "import sys; from numaudit.cli.main import call; sys.exit(call(['capture', '-']))"
    with os.fdopen(terminal, "rb", buffering=0), os.fdopen(user, "wb") as output:
        done = _run(program, output)
        assert done.returncode == 2
        assert done.stderr == (
            "numaudit: standard output is a terminal, and an archive is not text; add > host.tar.xz\n"
        )
        assert not select.select([terminal], [], [], 0)[0]


def test_a_reader_that_goes_away_is_an_error_for_an_archive(fixtures: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = _program(fixtures / "huge-pages", "-")
    with os.fdopen(writing, "wb") as output:
        done = _run(program, output)
    assert (done.returncode, done.stderr) == (3, "numaudit: cannot write standard output: Broken pipe\n")


def test_the_checkpoints_of_a_kubelet_with_another_root_folder_are_copied(fixtures: Path, tmp_path: Path) -> None:
    host = _without_pods(fixtures / "kubernetes-four-nodes", tmp_path / "host")
    (host / "data").mkdir()
    (host / "var/lib/kubelet").rename(host / "data/kubelet")
    (host / "proc/347/cmdline").write_bytes(b"kubelet\0--root-dir=/data/kubelet\0")
    capture(Host.under(host), tmp_path / "copy")
    name = "data/kubelet/memory_manager_state"
    assert (tmp_path / "copy" / name).read_bytes() == (host / name).read_bytes()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("memoryManagerPolicy: Static # as it is\n", "memoryManagerPolicy: Static # as it is\n"),
        ("memoryManagerPolicy: Static\nstaticPodURLHeader: {A: [hush]}\n", '{"memoryManagerPolicy":"Static"}'),
        ("root:hush:20000:0:99999:7:::\ndaemon:*:20000:0:99999:7:::\n", None),
        ("hush\n", None),
    ],
)
def test_a_capture_has_no_secret_of_the_file_that_configures_the_kubelet(
    text: str, kept: str | None, fixtures: Path, tmp_path: Path
) -> None:
    host = _without_pods(fixtures / "kubernetes-four-nodes", tmp_path / "host")
    (host / "proc/347/cmdline").write_bytes(b"kubelet\0--config=/etc/some.yaml\0")
    (host / "etc/some.yaml").write_text(text)
    capture(Host.under(host), tmp_path / "copy")
    copied = tmp_path / "copy/etc/some.yaml"
    assert (copied.read_text() if copied.exists() else None) == kept
    said = (tmp_path / "copy" / NOT_READ).read_text()
    assert ("/etc/some.yaml: not understood: " in said) is (kept is None)
    assert "hush" not in said


@pytest.mark.parametrize("flag", ["--config", "--config-dir", "--root-dir"])
def test_no_path_that_a_process_names_leads_out_of_the_copy(fixtures: Path, tmp_path: Path, flag: str) -> None:
    """Through a link `..` is short on the host, and long in a copy that has a folder instead of the link."""
    host = _without_pods(fixtures / "kubernetes-four-nodes", tmp_path / "1/2/3/host")
    deep, theirs = host / "atk/1/2/3/4/5/6/7", host / "atk/1/stolen"
    deep.mkdir(parents=True)
    (host / "atk/short").symlink_to(deep.relative_to(host / "atk"))
    theirs.mkdir()
    for name in ("planted.conf", "memory_manager_state"):
        (theirs / name).write_text("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")
    named = "/atk/short/../../../../../../stolen" + ("/planted.conf" if flag == "--config" else "")
    (host / "proc/347/cmdline").write_bytes(f"kubelet\0{flag}={named}\0".encode())
    out = tmp_path / "1/2/3/out"
    before = _names(tmp_path)
    capture(Host.under(host), out / "copy")
    assert _names(tmp_path) - before == {out, *_names(out)}
    assert [path for path in _names(out) if not path.is_relative_to(out / "copy")] == []


@pytest.mark.parametrize("name", ["../away", "proc/../../away", "/away"])
def test_nothing_is_made_outside_of_a_new_folder(tmp_path: Path, name: str) -> None:
    with filled(tmp_path / "copy") as folder:
        for make in (folder.make, lambda path: folder.write(path, b"x"), lambda path: folder.link(path, "x")):
            with pytest.raises(OSError, match="leads out of the folder"):
                make(PurePath(name))
            with pytest.raises(OSError, match="leads out of the folder"):
                make(PurePath(name, "below"))
    assert not (tmp_path / "away").exists()


def _names(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


# Targets that are refused


def test_an_empty_folder_is_filled_and_a_full_one_refused(captured: CapturedHost, tmp_path: Path) -> None:
    host = captured("memory-only-node")
    (tmp_path / "new").mkdir()
    capture(host, tmp_path / "new")
    with pytest.raises(InputError, match=r"is not an empty folder; give a new one"):
        capture(host, tmp_path / "new")


@pytest.mark.parametrize("name", ["there.tar.xz", "there"])
def test_a_file_that_exists_is_never_overwritten(captured: CapturedHost, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(InputError):
        capture(captured("memory-only-node"), tmp_path / name)
    assert (tmp_path / name).read_text() == "precious"


@pytest.mark.parametrize("target", ["file/below", "file/below.tar.xz", "none/a.tar.xz"])
def test_a_target_that_cannot_be_written_is_reported_and_leaves_nothing(
    captured: CapturedHost, tmp_path: Path, target: str
) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unavailable, match=r"cannot write .*(Not a directory|No such file)"):
        capture(captured("memory-only-node"), tmp_path / target)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_name_may_be_as_long_as_the_file_system_takes(captured: CapturedHost, tmp_path: Path) -> None:
    target = tmp_path / ("x" * 248 + ".tar.xz")
    capture(captured("huge-pages"), target)
    assert list(tmp_path.iterdir()) == [target]


def test_a_target_that_cannot_even_be_examined_is_named(captured: CapturedHost, tmp_path: Path) -> None:
    for name in ("x" * 300, "x" * 300 + ".tar.xz"):
        with pytest.raises(Unavailable, match=r"cannot write .*: File name too long"):
            capture(captured("huge-pages"), tmp_path / name)


@pytest.mark.parametrize("name", ["host.zip", "host.tar", "host.tar.gz", "host.tgz"])
def test_another_kind_of_archive_is_refused_instead_of_becoming_a_folder(
    captured: CapturedHost, tmp_path: Path, name: str
) -> None:
    with pytest.raises(InputError, match=r"give a name that ends in \.tar\.xz"):
        capture(captured("huge-pages"), tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("failure", "raised", "message"),
    [
        (OSError(28, os.strerror(28)), Unavailable, r"cannot write .*a\.tar\.xz: No space left"),
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)
def test_a_full_disk_or_ctrl_c_leaves_no_half_archive(
    captured: CapturedHost,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    failure: BaseException,
    raised: type[BaseException],
    message: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(tarfile.TarFile, "add", fail)
    with pytest.raises(raised, match=message):
        capture(captured("memory-only-node"), tmp_path / "a.tar.xz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("put", ["a link", "a folder"])
def test_a_folder_that_somebody_swaps_meanwhile_is_never_written_through(
    captured: CapturedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, put: str
) -> None:
    """Root captures into a folder of another user, who may rename what is in it."""
    victim = tmp_path / "victim"
    (victim / "sys/kernel").mkdir(parents=True)
    for name in ("mounts", "version", "stat", "vmstat", "meminfo", "sys/kernel/numa_balancing", "cpuinfo"):
        (victim / name).write_text("precious")
    copy = tmp_path / "copy"
    copy.mkdir()
    read = kernel_host.read_bytes

    def swap(path: Path, limit: int) -> bytes:
        if (copy / "proc").is_dir() and not (tmp_path / "away").exists():
            (copy / "proc").rename(tmp_path / "away")
            if put == "a link":
                (copy / "proc").symlink_to(victim)
            else:
                victim.rename(copy / "proc")
        return read(path, limit)

    monkeypatch.setattr(tree, "read_bytes", swap)
    with pytest.raises(Unavailable, match="cannot write"):
        capture(captured("memory-only-node"), copy)
    kept = victim if put == "a link" else None
    assert kept is None or {file.read_text() for file in kept.rglob("*") if file.is_file()} == {"precious"}


def test_a_link_in_place_of_the_target_is_not_followed(captured: CapturedHost, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "copy").symlink_to("elsewhere")
    with pytest.raises(Unavailable, match="cannot write"):
        capture(captured("memory-only-node"), tmp_path / "copy")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_cgroups_that_are_nested_too_deep_are_left_out_and_named(captured: CapturedHost, tmp_path: Path) -> None:
    host = shutil.copytree(captured("huge-pages").root, tmp_path / "host", symlinks=True)
    folder = host / "sys/fs/cgroup"
    for _ in range(1020):
        folder = folder / "a"
        folder.mkdir()
        (folder / "memory.current").write_text("1")
    try:
        summaries = [capture(Host.under(host), tmp_path / target) for target in ("copy", "copy.tar.xz")]
    finally:
        subprocess.run(["rm", "-rf", host], check=True)  # Python's own way down ends at a thousand folders
    for summary in summaries:
        assert [one for one in summary.unread if "cgroups" in one.what] == [
            tree.Unread("925 cgroups", "in more than 98 folders")
        ]
    with unpacked(tmp_path / "copy.tar.xz") as archive:
        for found in (tmp_path / "copy", archive):
            assert (found / "sys/fs/cgroup" / ("a/" * 95) / "memory.current").read_text() == "1"
            assert not (found / "sys/fs/cgroup" / ("a/" * 96)).exists()


def test_a_host_without_cgroups_leaves_its_reason(captured: CapturedHost, tmp_path: Path) -> None:
    (tmp_path / "host/proc").mkdir(parents=True)
    (tmp_path / "host/proc/mounts").write_text("")
    with pytest.raises(Unavailable, match="no cgroup file system"):
        capture(Host.under(tmp_path / "host"), tmp_path / "copy")
