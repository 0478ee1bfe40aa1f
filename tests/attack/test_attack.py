"""The attack in a few seconds: who is honest is answered. How long that takes on a busy machine is no matter here."""

from __future__ import annotations

import pytest

from attack import MOST_MIB, Outcome, attack


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return attack(tmp_path_factory.mktemp("attack"), seconds=5, containers=50)


def test_scrapes_and_health_are_answered_amid_an_attack(outcome: Outcome) -> None:
    for probe in outcome.probes:
        assert len(probe.wrong) <= len(probe.times) / 4, f"{probe.name}: {probe.wrong}"
    assert outcome.failed_ticks == 0


def test_an_attack_takes_no_memory_without_end(outcome: Outcome) -> None:
    assert outcome.rss <= MOST_MIB


def test_the_attackers_were_noticed(outcome: Outcome) -> None:
    assert outcome.evicted > 0
    assert {"200", "401", "429"} <= outcome.answers.keys()
