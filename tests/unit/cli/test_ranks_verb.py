"""`numaudit ranks`: which processes it finds, what it says of them, and what it must not say."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from documentation.schemas import validate
from numaudit.cli.main import call
from numaudit.engine import rank_search
from numaudit.kernel import started_with
from numaudit.kernel.memory import numa_maps

Capture = pytest.CaptureFixture[str]
NODES = {4101: 0, 4102: 0, 4103: 1, 4104: 1}
"""Ranks of the pod vllm-0, and the node to which the policy of each binds it."""


@pytest.fixture
def root(fixtures: Path, tmp_path: Path) -> Path:
    """The made-up host, on which every command line and environment can be read and says nothing."""
    tree = tmp_path / "host"
    shutil.copytree(fixtures / "ranks", tree)
    for pid in (*NODES, 5101, 5102):
        (tree / f"proc/{pid}/cmdline").write_bytes(b"work\0")
        (tree / f"proc/{pid}/environ").write_bytes(b"HOME=/root\0")
    return tree


def document(capsys: Capture, root: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    assert call(["ranks", *arguments, "--root", str(root), "-o", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    validate(found, "Ranks")
    return found


def table(capsys: Capture, root: Path, *arguments: str, code: int = 0) -> str:
    assert call(["ranks", *arguments, "--root", str(root)]) == code
    return capsys.readouterr().out


def free(root: Path, pid: int) -> None:
    """Takes the memory policy of a process away."""
    for file in (root / f"proc/{pid}").rglob("numa_maps"):
        file.write_text(re.sub(r"(?m)^(\w+) bind:\d", r"\1 default", file.read_text()))


def test_all_ranks_of_the_host_are_one_table_with_the_worst_first(capsys: Capture, root: Path) -> None:
    found = document(capsys, root)
    assert [(one["pid"], one["container"], one["verdict"]) for one in found["items"]] == [
        (4104, "ml/vllm-0/server", "first-touch-before-bind"),
        (4103, "ml/vllm-0/server", "thread-astray"),
        (4101, "ml/vllm-0/server", "in-force"),
        (4102, "ml/vllm-0/server", "in-force"),
        (5101, "slurm/77.0", "in-force"),
        (5102, "slurm/77.0", "in-force"),
    ]
    worst = found["items"][0]
    assert (worst["bytesByNode"], worst["threadsByNode"]) == ({"0": 256 << 20, "1": 768 << 20}, {"1": 2})
    assert found["sentence"].startswith("4 of 6 ranks are where they were bound; VLLM::Worker_TP3 (4104): 256Mi of 1Gi")
    assert (found["processes"], found["notRead"], found["notReadReason"]) == (6, 0, None)


def test_no_word_of_a_kubelet_is_on_the_screen(capsys: Capture, root: Path) -> None:
    assert "kubelet" not in table(capsys, root)


def test_the_commands_have_the_values_of_the_rank_and_come_before_the_table(capsys: Capture, root: Path) -> None:
    """Process 4104 has 256Mi on node 0 and is bound to node 1; a thread of 4103 may leave CPUs 8-15."""
    text = table(capsys, root)
    commands = text[: text.index("PROCESS")].splitlines()
    assert commands[-3:-1] == ["    migratepages 4104 0 1", "    taskset -a -p -c 8-15 4103"]


@pytest.mark.parametrize(
    ("name", "pids"),
    [
        ("4104", {4104}),
        ("5101", {5101}),
        ("vllm-0", set(NODES)),
        ("ml/vllm-0/server", set(NODES)),
        ("job_77", {5101, 5102}),
        ("solver", {5101, 5102}),
        ("VLLM*TP[01]", {4101, 4102}),
    ],
)
def test_a_name_is_a_process_a_container_a_cgroup_or_a_pattern(
    capsys: Capture, root: Path, name: str, pids: set[int]
) -> None:
    assert {one["pid"] for one in document(capsys, root, name)["items"]} == pids


@pytest.mark.parametrize("name", ["nobody", "999999", "nobody*"])
def test_a_name_of_nothing_is_an_error(capsys: Capture, root: Path, name: str) -> None:
    assert call(["ranks", name, "--root", str(root)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"no container matches '{name}'" in err
    assert "no rank is a process with that id or name" in err


def test_a_host_without_ranks_says_so_and_what_was_looked_at(capsys: Capture, root: Path) -> None:
    for pid in (*NODES, 5101, 5102):
        free(root, pid)
    assert table(capsys, root).splitlines()[0] == (
        "No process declares a placement: numaudit read the command line, the environment and the memory policy of "
        "all 6 processes."
    )
    assert document(capsys, root, "--fail-on", "misaligned")["items"] == []


def test_a_process_that_is_no_rank_is_no_error(capsys: Capture, root: Path) -> None:
    free(root, 5101)
    found = document(capsys, root, "5101")
    assert found["items"] == []
    assert found["sentence"].startswith("Process 5101 declares no placement: numaudit read the command line, the ")


@pytest.mark.parametrize("file", ["environ", "numa_maps"])
def test_where_a_process_could_not_be_read_there_may_be_ranks(
    capsys: Capture, root: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    for pid in (*NODES, 5101, 5102):
        free(root, pid)

    module, name, text = (
        (started_with, "environment", b"") if file == "environ" else (numa_maps, "policy_of", "default")
    )

    def refused(_: object, pid: int) -> object:
        if pid == 4102:
            raise PermissionError(13, "Permission denied", f"/proc/{pid}/{file}")
        return text

    monkeypatch.setattr(module, name, refused)
    first = table(capsys, root).splitlines()[0]
    assert first.startswith("No process declares a placement, as far as could be read: 1 of 6 processes")
    assert f"/proc/4102/{file}: Permission denied" in first
    table(capsys, root, "--fail-on", "misaligned", code=3)


def test_what_there_was_no_time_for_is_not_said_to_be_none(
    capsys: Capture, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(rank_search, "monotonic", lambda: 40.0 * next(clock))
    found = document(capsys, root)
    assert found["items"] == []
    assert (found["processes"], found["notRead"], found["notReadReason"]) == (6, 6, "the time of 30 s ran out")


def test_processes_of_the_root_cgroup_are_looked_at(capsys: Capture, root: Path) -> None:
    """As on a host without systemd."""
    for file in root.glob("sys/fs/cgroup/**/cgroup.procs"):
        if file.read_text().split()[:1] in (["5101"], ["5102"]):
            file.write_text("")
    (root / "sys/fs/cgroup/cgroup.procs").write_text("5101\n5102\n")
    assert {(one["pid"], one["container"]) for one in document(capsys, root, "solver")["items"]} == {
        (5101, "/"),
        (5102, "/"),
    }
    assert [one["pid"] for one in document(capsys, root, "5102")["items"]] == [5102]


def test_several_jobs_have_ranks_of_one_number_so_the_sentence_has_their_processes(capsys: Capture, root: Path) -> None:
    (root / "proc/4104/environ").write_bytes(b"RANK=3\0")
    assert "; rank 3 (PID 4104): 256Mi of 1Gi on node 0" in document(capsys, root)["sentence"]
    (alone,) = document(capsys, root, "4104")["items"]
    assert alone["rank"] == 3


def test_a_verdict_fails_where_that_is_asked_for(capsys: Capture, root: Path) -> None:
    for given in ("misaligned", "thread-astray"):
        assert call(["ranks", "--root", str(root), "--fail-on", given]) == 1
        err = capsys.readouterr().err
        assert "numaudit: 'ml/vllm-0/server': VLLM::Worker_TP2 (4103): thread-astray: 1 thread (nccl-net)" in err
        assert ("4104" in err) is (given == "misaligned")
    assert call(["ranks", "--root", str(root), "--fail-on", "declared-not-in-force"]) == 0
    capsys.readouterr()
    assert call(["ranks", "--root", str(root), "--fail-on", "drifted"]) == 2
    assert "there is no verdict 'drifted'" in capsys.readouterr().err


def test_what_a_launcher_declares_for_the_main_thread_alone_gets_no_command_for_all_threads(
    capsys: Capture, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DPDK places each of its threads; `taskset -a` would put them all on the same CPUs."""
    (root / "proc/4101/cmdline").write_bytes(b"dpdk-testpmd\0-l\x008-15\0--\0")
    (wrong,) = (one for one in document(capsys, root, "vllm-0")["items"] if one["pid"] == 4101)
    assert wrong["declarations"][-1]["threads"] == "main"
    assert (wrong["verdict"], wrong["commands"]) == ("declared-not-in-force", [])


def test_the_report_names_this_verb_for_a_process(capsys: Capture, root: Path) -> None:
    assert call(["report", "4104", "--root", str(root)]) == 2
    assert "4104 is a process: `numaudit ranks 4104` shows where it is bound" in capsys.readouterr().err
    assert call(["report", "999999", "--root", str(root)]) == 2
    assert "is a process" not in capsys.readouterr().err
