"""Swap of the host and of containers, tick after tick."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosts.node_tree import NodeTree
from numaudit.engine.collectors import tiers
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.snapshot import Swap

KIB = 1024
_SWAP = "SwapTotal: 8192 kB\nSwapFree: 4096 kB\n"


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    made = NodeTree(tmp_path)
    pod = made.pod("prod", "db")
    for name in ("a", "b"):
        made.container(pod, name)
    _set_limits(made, "max", "max", "0", "max")
    _set_meminfo(made, _SWAP)
    return made


def _set_meminfo(tree: NodeTree, text: str) -> None:
    (tree.root / "proc/meminfo").write_text(text)


def _set_limits(tree: NodeTree, pods: str, pod: str, *containers: str) -> None:
    groups = tree.root / "sys/fs/cgroup/kubepods.slice"
    (groups / "memory.swap.max").write_text(f"{pods}\n")
    paths = [Path(f"{tree.root}/sys/fs/cgroup{path}") for path in tree.containers()]
    (paths[0].parent / "memory.swap.max").write_text(f"{pod}\n")
    for path, limit in zip(paths, containers, strict=True):
        (path / "memory.swap.max").write_text(f"{limit}\n")


def _swap(observer: Observer) -> tuple[Swap, dict[str | None, int | None]]:
    taken = observer.observe()
    assert taken.swap is not None
    names = {one.id: one.name for one in taken.containers if one.kind == "container"}
    return taken.swap, {names[id_]: limit for id_, limit in taken.swap.limits.items() if id_ in names}


def test_each_container_has_its_limit(tree: NodeTree) -> None:
    found, limits = _swap(Observer.of(Host.under(tree.root)))
    assert (found.total, found.free) == (8192 * KIB, 4096 * KIB)
    assert limits == {"a": 0, "b": None}


def test_a_limit_of_the_pod_holds_for_its_containers(tree: NodeTree) -> None:
    _set_limits(tree, "max", "4096", "0", "max")
    assert _swap(Observer.of(Host.under(tree.root)))[1] == {"a": 0, "b": 4096}


def test_without_swap_no_cgroup_is_asked(tree: NodeTree) -> None:
    _set_meminfo(tree, "SwapTotal: 0 kB\nSwapFree: 0 kB\n")
    assert _swap(Observer.of(Host.under(tree.root)))[0] == Swap(0, 0, {})


def test_a_host_that_does_not_say_has_unknown_swap(tree: NodeTree) -> None:
    (tree.root / "proc/meminfo").unlink()
    assert Observer.of(Host.under(tree.root)).observe().swap is None


def test_limits_are_read_again_some_in_each_tick(tree: NodeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "AGAIN_IN_A_TICK", 1)
    observer = Observer.of(Host.under(tree.root))
    _swap(observer)
    _set_limits(tree, "max", "max", "4096", "8192")
    seen = [_swap(observer)[1] for _ in range(6)]
    assert seen[0] != {"a": 4096, "b": 8192}
    assert seen[-1] == {"a": 4096, "b": 8192}


def test_a_limit_that_cannot_be_read_is_not_known(tree: NodeTree) -> None:
    _set_limits(tree, "max", "max", "lots", "max")
    observer = Observer.of(Host.under(tree.root))
    assert _swap(observer)[1] == {"b": None}
    (outcome,) = [one for one in observer.observe().outcomes if one.source == "swap"]
    assert outcome.state == "partial"
