"""--root finds the tree of a host in what people collect: a sosreport, a must-gather, a folder around a capture."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from numaudit.capture.layout import tree_in
from numaudit.cli.main import call
from numaudit.errors import InputError

NODES = "sys/devices/system/node"


@pytest.fixture
def sosreport(tmp_path: Path) -> Path:
    """As sos's plugins numa, processor and memory make one of two nodes: no `online`, no cgroup, no PID in proc."""
    top = tmp_path / "sosreport-worker-0-2026-11-20-abcdefg"
    for node in (0, 1):
        _write(top / NODES / f"node{node}/meminfo", f"Node {node} MemTotal: {(node + 1) * 1024} kB\n")
        _write(top / NODES / f"node{node}/cpulist", f"{2 * node}-{2 * node + 1}\n")
        _write(top / NODES / f"node{node}/distance", "10 21\n" if node == 0 else "21 10\n")
    _write(top / "sys/devices/system/cpu/online", "0-3\n")
    _write(top / "proc/meminfo", "MemTotal: 3072 kB\n")
    _write(top / "version.txt", "sosreport: 4.8.1\n")
    return top


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _packed(top: Path, file: Path) -> Path:
    with tarfile.open(file, "w:xz") as tar:
        tar.add(top, arcname=top.name)
    return file


def test_the_topology_of_a_sosreport_is_read(
    capsys: pytest.CaptureFixture[str], sosreport: Path, tmp_path: Path
) -> None:
    archive = _packed(sosreport, tmp_path.parent / f"{tmp_path.name}.tar.xz")
    for root in (sosreport, tmp_path, archive):
        assert call(["topology", "--root", str(root)]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert [row[:3] for row in rows if row and row[0] in {"0", "1"}][:2] == [["0", "2", "0-1"], ["1", "2", "2-3"]]


def test_what_a_sosreport_lacks_is_said(capsys: pytest.CaptureFixture[str], sosreport: Path) -> None:
    assert call(["report", "--root", str(sosreport)]) == 3
    assert f"cannot read {sosreport}/proc/mounts: No such file or directory" in capsys.readouterr().err


def test_of_several_trees_none_is_chosen(sosreport: Path, tmp_path: Path) -> None:
    _write(tmp_path / "another/proc/meminfo", "")
    with pytest.raises(InputError, match=f"--root {tmp_path}: holds 2 trees; give one, such as another, by itself"):
        tree_in(tmp_path, tmp_path)


def test_a_tree_behind_a_link_is_not_taken_for_what_is_in_the_folder(sosreport: Path, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given/host").symlink_to(sosreport)
    with pytest.raises(InputError, match="holds neither proc nor sys"):
        tree_in(tmp_path / "given", tmp_path / "given")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ((), "is a must-gather without /proc and /sys of a node; give what `numaudit capture` wrote on the node"),
        (("b", "a"), "has /proc and /sys of each node in an archive; unpack it and give one: {0}a/{1}, {0}b/{1}"),
        (("a", "b", "c", "d"), "unpack it and give one: {0}a/{1}, {0}b/{1}, {0}c/{1} and 1 more"),
    ],
)
@pytest.mark.parametrize("below", ["", "must-gather.local.7", "must-gather.local.7/quay-io-sha256-1"])
def test_a_must_gather_names_the_archives_of_its_nodes(
    tmp_path: Path, below: str, files: tuple[str, ...], message: str
) -> None:
    (tmp_path / below / "cluster-scoped-resources").mkdir(parents=True)
    for node in files:
        _write(tmp_path / below / f"nodes/{node}/sysinfo.tgz", "")
    expected = message.format(f"{below}/nodes/" if below else "nodes/", "sysinfo.tgz")
    with pytest.raises(InputError, match=re.escape(expected)):
        tree_in(tmp_path, tmp_path)
