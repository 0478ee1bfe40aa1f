"""The attack in a few seconds: who is honest is answered. How long that takes on a busy machine is no matter here."""

from __future__ import annotations

import pytest

from attack import MOST_MIB, Outcome, attack

pytestmark = pytest.mark.quiet
NOTICED = {"200", "401", "429"}
"""What attackers are answered, among them those who guess passwords."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """On a busy machine some attackers are not heard within a few seconds: then they have more."""
    for seconds in (5, 10, 20):
        found = attack(tmp_path_factory.mktemp("attack"), seconds=seconds, containers=50)
        if found.answers.keys() >= NOTICED:
            break
    return found


def test_scrapes_and_health_are_answered_amid_an_attack(outcome: Outcome) -> None:
    for probe in outcome.probes:
        assert len(probe.wrong) <= len(probe.times) / 4, f"{probe.name}: {probe.wrong}"
    assert outcome.failed_ticks == 0


def test_an_attack_takes_no_memory_without_end(outcome: Outcome) -> None:
    assert outcome.rss <= MOST_MIB


def test_the_attackers_were_noticed(outcome: Outcome) -> None:
    assert outcome.evicted > 0
    assert outcome.answers.keys() >= NOTICED
