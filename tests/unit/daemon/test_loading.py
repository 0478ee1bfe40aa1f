"""Probes are loaded beside the ticks, and again later where that can help."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, cast

import pytest

from hosts.node_tree import NodeTree
from made_up.probes import made_up_session
from numaudit.daemon.loading import LONGEST_PAUSE, Loading
from numaudit.daemon.service import Inbox
from numaudit.daemon.ticks.publisher import Features
from numaudit.errors import InputError
from numaudit.kernel.host import Host
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.probe import ProbeKind
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import Session
from numaudit.snapshot import CollectorOutcome

Kinds = Collection[ProbeKind[Any]]
PATIENCE = 60.0


class Loader:
    """Gives the prepared answers, and remembers the requests."""

    def __init__(self, answer: Callable[[str], Any]) -> None:
        self.answer, self.asked = answer, list[list[str]]()

    def __call__(self, kinds: Kinds) -> Callable[[], Session]:
        names = [kind.name for kind in kinds]
        self.asked.append(names)
        return lambda: Session({name: self.answer(name) for name in names})


def _loading(loader: Loader) -> Loading:
    return Loading((PAGE_ALLOC, CPU_TIME), loader, Inbox())


def _finish(loading: Loading) -> None:
    assert loading.busy
    loading.inbox.work(PATIENCE)
    assert not loading.busy


def test_until_probes_are_there_they_are_being_loaded() -> None:
    probes, _ = made_up_session()
    loading = _loading(Loader(probes.__getitem__))
    waiting = loading.session.probe(CPU_TIME)
    assert isinstance(waiting, ProbeRefusal)
    assert waiting.reason is Reason.LOADING
    loading.start()
    assert not loading.session.running()  # only the main thread takes them over
    _finish(loading)
    assert loading.session.running() == {name: probes[name] for name in ("page_alloc", "cpu_time")}
    loading.start_when_due(1e9)
    assert not loading.busy


def test_what_may_pass_is_tried_again_less_and_less_often_until_it_runs() -> None:
    probes, _ = made_up_session()
    killed = ProbeRefusal(Reason.LOADER_DIED, "the loader process ended by signal SIGKILL")
    loader = Loader(lambda name: probes[name] if name == "page_alloc" else killed)
    loading = _loading(loader)
    loading.start()
    _finish(loading)
    assert list(loading.session.running()) == ["page_alloc"]
    now, pauses = 0.0, list[float]()
    for _ in range(8):
        loading.start_when_due(now)
        begun = now
        while not loading.busy:
            now += 10
            loading.start_when_due(now)
        _finish(loading)
        pauses.append(now - begun)
    assert pauses == [60, 120, 240, 480, 960, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]
    assert loader.asked[1:] == [["cpu_time"]] * 8
    loader.answer = probes.__getitem__
    loading.start_when_due(now)
    loading.start_when_due(now + LONGEST_PAUSE)
    _finish(loading)
    assert list(loading.session.running()) == ["page_alloc", "cpu_time"]


@pytest.mark.parametrize("reason", [Reason.NO_PERMISSION, Reason.NO_BCC, Reason.UNSUPPORTED, Reason.CGROUP_V1])
def test_what_cannot_pass_by_itself_is_not_tried_again(reason: Reason) -> None:
    loader = Loader(lambda _: ProbeRefusal(reason, "no"))
    loading = _loading(loader)
    loading.start()
    _finish(loading)
    for now in (0.0, 1e6, 1e9):
        loading.start_when_due(now)
    assert len(loader.asked) == 1


def test_a_loader_that_raises_is_a_refusal_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: str) -> None:
        raise InputError("cannot read the BPF program cpu_time.bpf.c")

    loading = _loading(Loader(fail))
    for _ in range(3):
        loading.start()
        _finish(loading)
    refused = loading.session.probe(CPU_TIME)
    assert isinstance(refused, ProbeRefusal)
    assert "cannot read the BPF program" in refused.text
    lines = [one for one in caplog.messages if one.startswith("probes do not run: page_alloc, cpu_time: cannot read")]
    assert len(lines) == 1


def test_work_that_fails_stops_nothing() -> None:
    inbox, done = Inbox(), list[str]()
    inbox.put(lambda: cast("None", 1 // 0))
    inbox.put(lambda: done.append("next"))
    inbox.work(PATIENCE)
    assert done == ["next"]


def test_features_are_examined_again_only_when_something_changed(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path / "node")
    features = Features(Host.under(tree.root), Session({}))
    fine, gone = CollectorOutcome("intent", "ok"), CollectorOutcome("intent", "absent", "no kubelet")
    first = features.after([gone])
    assert features.after([gone]) is first
    assert [one.enabled for one in first if one.name == "kubelet"] == [False]
    kubelet = tree.root / "var/lib/kubelet"
    kubelet.mkdir(parents=True)
    (kubelet / "memory_manager_state").write_text("{}")
    assert [one.enabled for one in features.after([fine]) if one.name == "kubelet"] == [True]
    assert Features(Host.under(tree.root), None).after([fine]) == ()
