"""Whole ticks of the agent on a made-up node: what they publish, and what they must survive."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hosts.node_tree import MIB, NodeTree
from numaudit.config.settings import Settings
from numaudit.daemon.agent import Agent
from numaudit.daemon.logs import RateLimit
from numaudit.daemon.ticks.publisher import Published, Publisher
from numaudit.daemon.web.pages import Request
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.exporters.prometheus import ScrapeForm
from numaudit.kernel.host import Host
from numaudit.snapshot import CollectorOutcome

HOSTILE_NAMES = [
    b"x\xff",
    b"new\nline",
    b"\x1b]0;title\x07",
    b"50%s",
    b'quo"te\\',
    b"\xed\xa0\x80",
    "bidi\u202e".encode(),
]


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    return NodeTree(tmp_path / "node")


@contextmanager
def daemon_on(tree: NodeTree, settings: Settings | None = None) -> Iterator[Agent]:
    settings = settings or Settings(listen=("127.0.0.1", 0))
    daemon = Agent.of(settings, Engine(Observer.of(Host.under(tree.root))), RateLimit())
    with closing(daemon.server.socket):
        yield daemon


def samples(daemon: Agent, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """What a scraper gets of one metric."""
    body = daemon.ticker.pages.get(ScrapeForm("text", gzip=False))
    assert body is not None
    found = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            if sample.name == name:
                found[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_a_cgroup_of_any_name_is_exported_and_stops_no_tick(tree: NodeTree) -> None:
    for number, name in enumerate(HOSTILE_NAMES, 1):
        tree.group(f"/{os.fsdecode(name)}", anon=(number * MIB, 0))
    with daemon_on(tree) as daemon:
        daemon.ticker.tick()
        daemon.ticker.tick()
        assert (daemon.ticker.health.succeeded, daemon.ticker.health.failed) == (2, 0)
        resident = samples(daemon, "numaudit_container_resident_bytes")
        anon = {
            dict(labels)["container"]: value
            for labels, value in resident.items()
            if ("numa_node", "0") in labels and ("type", "anon") in labels
        }
        assert anon["/x\\xff"] == MIB
        assert anon["/new\\nline"] == 2 * MIB
        assert sorted(value for value in anon.values() if value) == [n * MIB for n in range(1, len(HOSTILE_NAMES) + 1)]
        answer = daemon.site.answer(Request("/report.json", {}))
        paths = {one["path"] for one in json.loads(b"".join(answer.body))["containers"]}
        assert {"/x\\xff", "/50%s", "/\\xed\\xa0\\x80", "/bidi\\u202e"} <= paths


def test_three_failed_ticks_in_a_row_make_it_unhealthy_and_end_the_series(
    tree: NodeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.fill(4)
    with daemon_on(tree) as daemon:
        daemon.ticker.tick()
        monkeypatch.setattr(Observer, "observe", _broken)
        for _ in range(2):
            daemon.ticker.tick()
        assert daemon.site.answer(Request("/-/healthy", {})).status == 200
        assert samples(daemon, "numaudit_container_info")
        daemon.ticker.tick()
        answer = daemon.site.answer(Request("/-/healthy", {}))
        assert (answer.status, b"".join(answer.body)) == (503, b"the newest 3 ticks failed; the log says why\n")
        assert not samples(daemon, "numaudit_container_info")
        assert not samples(daemon, "numaudit_node_memory_bytes")
        assert set(samples(daemon, "numaudit_failed_ticks_total").values()) == {3}
        assert daemon.site.answer(Request("/report.json", {})).status == 503
        page = daemon.site.answer(Request("/", {}))
        assert (page.status, b"prod/app-0/c0" in page.body[0]) == (503, True)
        monkeypatch.undo()
        daemon.ticker.tick()
        for path in ("/-/healthy", "/report.json", "/"):
            assert daemon.site.answer(Request(path, {})).status == 200
        assert samples(daemon, "numaudit_container_info")


@pytest.mark.parametrize("fails", [False, True])
def test_cycles_of_dead_objects_are_searched_for_between_ticks(
    tree: NodeTree, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    during: list[bool] = []

    def look(publisher: Publisher, before: Published | None, fetches: Sequence[int]) -> Published:
        during.append(gc.isenabled())
        if fails:
            raise OSError
        return now(publisher, before, fetches)

    now = Publisher.next_tick
    monkeypatch.setattr(Publisher, "next_tick", look)
    with daemon_on(tree) as daemon:
        daemon.ticker.tick()
        assert daemon.ticker.health.failed == fails
    assert during == [False]
    assert gc.isenabled()


def test_an_old_snapshot_is_served_no_longer_and_health_says_so(tree: NodeTree) -> None:
    tree.fill(4)
    with daemon_on(tree, Settings(listen=("127.0.0.1", 0), interval=15)) as daemon:
        daemon.ticker.tick()
        later = [0.0]
        daemon.ticker.health.now = lambda: time.monotonic() + later[0]
        later[0] = 44
        assert daemon.site.answer(Request("/-/healthy", {})).status == 200
        assert samples(daemon, "numaudit_container_info")
        later[0] = 46
        assert daemon.site.answer(Request("/-/healthy", {})).status == 503
        assert not samples(daemon, "numaudit_container_info")
        assert min(samples(daemon, "numaudit_snapshot_age_seconds").values()) >= 46
        assert len(daemon.live.with_newest_tick()) == 1


def _broken(*_: object, **__: object) -> None:
    raise RuntimeError("made to fail")


def test_sources_that_fail_for_one_cause_are_one_line_of_the_log(
    tree: NodeTree, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = Publisher(Settings(), Engine(Observer.of(Host.under(tree.root))), 0.0)
    lost = [CollectorOutcome(name, "failed", "no rights") for name in ("cpu_time", "pmu", "hint_faults")]
    with caplog.at_level("INFO"):
        publisher._log_changes([*lost, CollectorOutcome("intent", "absent", "no kubelet")])
        publisher._log_changes(lost)
    assert [one.getMessage() for one in caplog.records] == [
        "cpu_time, pmu, hint_faults: failed: no rights",
        "intent: absent: no kubelet",
    ]
