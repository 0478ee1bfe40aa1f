"""`report --fail-on`: verdicts that a script does not accept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.tree_copies import lent
from numaudit.cli.main import call
from screens.printed import table_of

Capture = pytest.CaptureFixture[str]
POD = "default/gu-two-numanode"
UID = "d3e03ed6e8ea78355e1d1b3a6bdbf5f3"


@pytest.fixture
def drifted(fixtures: Path) -> Iterator[Path]:
    """A node on which every container is aligned but those of one pod, which may use the memory of all nodes."""
    with lent(fixtures / "kubernetes-four-nodes") as root:
        files = list((root / "sys/fs/cgroup").glob(f"**/pod{UID}/*/cpuset.mems.effective"))
        assert files
        for file in files:
            file.write_text("0-3\n")
        yield root


def test_a_drifted_container_whose_bytes_are_in_place_fails_on_its_verdict(drifted: Path, capsys: Capture) -> None:
    assert call(["report", "--root", str(drifted), "--fail-on", "spilled,drifted"]) == 1
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        f"numaudit: '{POD}/{name}': drifted: it may use nodes 0-3, but was promised node 1 only" for name in ("a", "b")
    ]
    assert table_of(out)[1].startswith(f"{POD}/a ")


def test_other_verdicts_and_other_containers_pass(drifted: Path, capsys: Capture) -> None:
    assert call(["report", "--root", str(drifted), "--fail-on", "spilled, cpu-remote,unknown"]) == 0
    assert call(["report", "default/gu-init-numanode", "--root", str(drifted), "--fail-on", "drifted"]) == 0
    assert capsys.readouterr().err == ""


def test_a_verdict_that_is_not_accepted_outweighs_bytes_that_are_not_known(drifted: Path, capsys: Capture) -> None:
    for file in (drifted / "sys/fs/cgroup").glob(f"**/pod{UID}/*/memory.numa_stat"):
        file.unlink()
    other = "default/gu-init-numanode"
    for file in (drifted / "sys/fs/cgroup").glob("**/podec1e8143aeaf997479388c72fd53049e/*/memory.numa_stat"):
        file.unlink()
    assert call(["report", other, "--root", str(drifted), "--fail-below", "0.9"]) == 3
    assert call(["report", "--root", str(drifted), "--fail-below", "0.9", "--fail-on", "drifted"]) == 1
    assert "the nodes of its memory are not known" in capsys.readouterr().err


def test_misaligned_stands_for_the_verdicts_that_are(drifted: Path, capsys: Capture) -> None:
    errors = []
    for names in ("misaligned", "unknown, misaligned", "drifted,cpu-remote,spilled,remote-access"):
        assert call(["report", "--root", str(drifted), "--fail-on", names]) == 1
        errors.append(capsys.readouterr().err)
    assert errors == [errors[0]] * 3
    assert call(["report", "--root", str(drifted), "--verdict", "misaligned"]) == 0
    assert all(" drifted  " in line for line in table_of(capsys.readouterr().out)[1:-1])


@pytest.mark.parametrize(
    ("given", "wrong", "nearest"),
    [
        ("drift", "drift", "drifted"),
        ("aligned,cpu_remote", "cpu_remote", "cpu-remote"),
        ("Spilled", "Spilled", "spilled"),
        ("misalignd", "misalignd", "misaligned"),
    ],
)
def test_a_name_that_is_no_verdict_is_refused_with_the_nearest_and_the_list(
    drifted: Path, capsys: Capture, given: str, wrong: str, nearest: str
) -> None:
    assert call(["report", "--root", str(drifted), "--fail-on", given]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"there is no verdict {wrong!r}; did you mean {nearest}?" in err
    assert "The verdicts are drifted, spilled, cpu-remote, remote-access, unknown, split, aligned, unmanaged" in err
    assert err.endswith("; misaligned stands for those that are\n")


@pytest.mark.parametrize("given", ["spilled,", "", ",spilled"])
def test_a_name_that_is_missing_is_refused_with_the_list(drifted: Path, capsys: Capture, given: str) -> None:
    assert call(["report", "--root", str(drifted), "--fail-on", given]) == 2
    assert capsys.readouterr().err == (
        f"numaudit: --fail-on {given!r}: a name is missing; choose from misaligned,drifted,spilled,cpu-remote,"
        "remote-access,unknown,split,aligned,unmanaged,declared-not-in-force,first-touch-before-bind,thread-astray\n"
    )


def test_where_no_promise_is_known_there_is_no_answer(fixtures: Path, capsys: Capture) -> None:
    root = str(fixtures / "systemd-crio")
    assert call(["report", "--root", root, "--fail-on", "drifted"]) == 3
    assert "numaudit: --fail-on: its promise is unknown: no kubelet" in capsys.readouterr().err
    assert call(["report", "--root", root, "--fail-on", "unknown"]) == 1
    assert "'shop/web-5c9/nginx': unknown: its promise is unknown" in capsys.readouterr().err


RANKS = ("vllm-0", "--processes", "--fail-on")


def test_a_rank_that_is_not_where_it_was_bound_fails_on_its_verdict(fixtures: Path, capsys: Capture) -> None:
    assert call(["report", "--root", str(fixtures / "ranks"), *RANKS, "first-touch-before-bind"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "numaudit: 'ml/vllm-0/server': VLLM::Worker_TP3 (4104): first-touch-before-bind: 256Mi of 1Gi on node 0, "
        "touched before it was bound"
    ]


def test_ranks_with_other_verdicts_pass_without_a_kubelet(fixtures: Path, capsys: Capture) -> None:
    assert call(["report", "--root", str(fixtures / "ranks"), *RANKS, "declared-not-in-force"]) == 0
    assert call(["report", "--root", str(fixtures / "ranks"), *RANKS, "declared-not-in-force,drifted"]) == 3
    assert "--fail-on: its promise is unknown: no kubelet" in capsys.readouterr().err


def test_verdicts_of_ranks_need_processes(fixtures: Path, capsys: Capture) -> None:
    assert call(["report", "--root", str(fixtures / "ranks"), "--fail-on", "thread-astray"]) == 2
    assert "--fail-on thread-astray: only --processes judges ranks; add it" in capsys.readouterr().err
    assert call(["report", "--root", str(fixtures / "ranks"), "--verdict", "thread-astray"]) == 2
    assert "there is no verdict" in capsys.readouterr().err


def test_a_rank_of_which_too_little_is_known_is_no_answer(fixtures: Path, capsys: Capture) -> None:
    with lent(fixtures / "ranks") as root:
        (root / "proc/4102/numa_maps").unlink()
        (root / "proc/4102/cmdline").write_bytes(b"java\0-XX:+UseNUMA\0")
        assert call(["report", "--root", str(root), *RANKS, "declared-not-in-force"]) == 3
    assert "VLLM::Worker_TP1 (4102) is unknown" in capsys.readouterr().err


def test_names_are_hidden_in_what_fails(fixtures: Path, capsys: Capture) -> None:
    assert call(["report", "--root", str(fixtures / "ranks"), *RANKS, "thread-astray", "--redact"]) == 1
    out, err = capsys.readouterr()
    assert "thread-astray: threads-" in err
    assert "VLLM" not in out + err
    assert "nccl" not in out + err
