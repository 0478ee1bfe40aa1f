"""The check of NUMA nodes in `numaudit doctor`: what an unusual machine means for a kubelet."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from numaudit.doctor import checks
from numaudit.kernel.host import Host
from numaudit.probes.session import Session
from numaudit.topology.machine import Cpu, Machine, Node
from numaudit.topology.nodeset import CpuSet


def said(machine: Machine, monkeypatch: pytest.MonkeyPatch, fixtures: Path) -> str:
    monkeypatch.setattr(checks, "read_machine", lambda host: machine)
    found = checks.examine(Host(fixtures / "eight-nodes"), Session({}, {}))
    return next(one.detail for one in found if one.name == "numa nodes")


def of_nodes(ids: Iterable[int], cpus: tuple[Cpu, ...] = ()) -> Machine:
    return Machine(tuple(Node(one, memory=1 << 30) for one in ids), cpus)


def test_more_nodes_than_a_kubelet_takes_by_itself_are_named(monkeypatch: pytest.MonkeyPatch, fixtures: Path) -> None:
    assert "max-allowable-numa-nodes" not in said(of_nodes(range(8)), monkeypatch, fixtures)
    assert "only where its option max-allowable-numa-nodes" in said(of_nodes(range(9)), monkeypatch, fixtures)


def test_more_nodes_than_are_foretold_are_named(monkeypatch: pytest.MonkeyPatch, fixtures: Path) -> None:
    assert "all 2^" not in said(of_nodes(range(16)), monkeypatch, fixtures)
    assert "all 2^17 sets" in said(of_nodes(range(17)), monkeypatch, fixtures)


def test_nodes_beyond_a_kubelets_masks_are_named(monkeypatch: pytest.MonkeyPatch, fixtures: Path) -> None:
    assert "masks end" not in said(of_nodes((0, 63)), monkeypatch, fixtures)
    assert said(of_nodes((0, 64, 65)), monkeypatch, fixtures).endswith("its masks end at node 63: 64-65")


@pytest.mark.parametrize(
    ("cores", "words"), [((0, 1), ""), ((0, 0), "counts 1 core, by core_id, and thread_siblings_list has 2")]
)
def test_cores_that_the_kernel_and_a_kubelet_count_otherwise_are_named(
    cores: tuple[int, int], words: str, monkeypatch: pytest.MonkeyPatch, fixtures: Path
) -> None:
    cpus = tuple(Cpu(one, 0, 0, core, CpuSet.of(one)) for one, core in enumerate(cores))
    text = said(of_nodes((0,), cpus), monkeypatch, fixtures)
    assert words in text
    assert ("thread_siblings_list" in text) is bool(words)


@pytest.mark.parametrize(
    ("sockets", "words"), [((0, 0), "nothing can be misplaced"), ((0, 1), "2 sockets and one node")]
)
def test_one_node_of_several_sockets_is_no_good_news(
    sockets: tuple[int, int], words: str, monkeypatch: pytest.MonkeyPatch, fixtures: Path
) -> None:
    machine = of_nodes((0,), tuple(Cpu(one, 0, socket, one) for one, socket in enumerate(sockets)))
    monkeypatch.setattr(checks, "read_machine", lambda host: machine)
    found = checks.examine(Host(fixtures / "eight-nodes"), Session({}, {}))
    assert words in (next(one.hint for one in found if one.name == "numa nodes") or "")
