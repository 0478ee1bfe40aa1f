"""Ranks that the agent watches, as it publishes them: metrics, report, and nothing of what was declared."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from numaudit.api import document
from numaudit.api.redact import redact
from numaudit.config.settings import RankSettings, Settings
from numaudit.daemon.ticks.publisher import Published, Publisher
from numaudit.encoding.value import Origin
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.exporters.exposition import Exposition
from numaudit.exporters.prometheus import render
from numaudit.kernel.host import Host
from numaudit.views.account import parts

WATCHING = Settings(ranks=RankSettings(enabled=True, max_cpu_time=60.0))
ARGUMENTS = "--membind=1 --cpunodebind=1"


@pytest.fixture
def publisher(fixtures: Path, tmp_path: Path) -> Publisher:
    """A pod with four ranks, the last of which used memory before it was bound."""
    tree = tmp_path / "host"
    shutil.copytree(fixtures / "ranks", tree)
    for pid in (4101, 4102, 4103, 4104):
        (tree / f"proc/{pid}/cmdline").write_bytes(b"rank\0")
        arguments = ARGUMENTS if pid > 4102 else ARGUMENTS.replace("1", "0")
        (tree / f"proc/{pid}/environ").write_bytes(f"_VLLM_INTERNAL_NUMACTL_ARGS={arguments}\0RANK={pid}\0".encode())
        with (tree / f"proc/{pid}/status").open("a") as status:
            status.write("RssAnon:\t1024 kB\nRssFile:\t0 kB\nRssShmem:\t0 kB\n")
    return Publisher(WATCHING, Engine(Observer.of(Host.under(tree))), 0.0)


def samples(exposition: Exposition, name: str) -> dict[str, float]:
    """Verdict, or empty -> value."""
    return {
        sample.labels.get("verdict", ""): sample.value
        for family in text_string_to_metric_families(render(exposition, "text").decode())
        for sample in family.samples
        if sample.name == name
    }


def tick(publisher: Publisher, before: Published | None = None) -> Published:
    return publisher.next_tick(before, (0, 0))


def test_ranks_are_counted_by_every_verdict(publisher: Publisher) -> None:
    found = tick(publisher).exposition
    assert samples(found, "numaudit_container_ranks") == {
        "declared-not-in-force": 0,
        "first-touch-before-bind": 1,
        "thread-astray": 1,
        "unknown": 0,
        "in-force": 2,
        "unbound": 0,
    }
    assert set(samples(found, "numaudit_rank_round_seconds")) == {""}


def test_the_setting_takes_effect_while_the_agent_runs(publisher: Publisher) -> None:
    first = tick(publisher)
    publisher.use(replace(WATCHING, ranks=RankSettings()))
    second = tick(publisher, first)
    assert not samples(second.exposition, "numaudit_container_ranks")
    assert not samples(second.exposition, "numaudit_rank_round_seconds")
    publisher.use(WATCHING)
    assert samples(tick(publisher, second).exposition, "numaudit_container_ranks")


def test_the_container_s_account_says_it_in_one_sentence(publisher: Publisher) -> None:
    report = tick(publisher).ticked.report
    (one,) = (one for one in report.containers if one.ranks is not None)
    (said,) = dict(parts(one, report.nodes))["ranks"]
    assert said.startswith("2 of 4 ranks are where they were bound; rank 4104: 256Mi of 1Gi on node 0")


def test_a_redacted_report_of_the_agent_has_verdicts_and_no_declarations(publisher: Publisher) -> None:
    report = tick(publisher).ticked.report
    assert "NUMACTL" in document.encode("Report", report, Origin(None, report.taken_at)).decode()
    hidden = document.encode("Report", redact(report, b"key", report), Origin(None, report.taken_at)).decode()
    for word in ("VLLM", "nccl", "membind", "NUMACTL", "CPUs 8-15"):
        assert word not in hidden
    assert "first-touch-before-bind" in hidden
