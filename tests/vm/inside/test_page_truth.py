"""What is said of sampled pages beside the truth, one trial each: `make truth` has many more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.probes.kinds import KINDS
from numaudit.probes.session import Session
from page_truth import PLANS, SLACK, run, told
from workload import MIB

SOON = 0.5
"""Seconds between ticks, where the memory stays where it is: the guest's kernel makes several passes in 8 of them."""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session.open(Host(), KINDS, cgroups=100, nodes=16) as opened:
        yield opened


@pytest.fixture(scope="module")
def observer() -> Observer:
    return Observer.of(Host())


@pytest.mark.parametrize(
    "name",
    [
        "far half in huge pages",
        "hot far megabyte",
        "far half bound",
        "far half read-only",
        "two processes share a far file",
        "threads on two nodes",
    ],
)
def test_no_claim_about_sampled_pages_is_false(session: Session, observer: Observer, name: str) -> None:
    trial = run(PLANS[name], observer, session, ticks=8, pause=SOON)
    assert trial.ticks, "the kernel sampled nothing"
    assert trial.false == []


def test_half_of_what_is_used_from_afar_is_told_after_a_pass(session: Session, observer: Observer) -> None:
    """More after more passes. The kernel may leave memory out: then another process is tried."""
    for _ in range(3):
        trial = run(PLANS["half far"], observer, session, ticks=16, pause=SOON)
        assert trial.false == []
        found = [told(one) for one in trial.ticks]
        if found and max(found) > 0.45 * 12 * MIB:
            return
    pytest.fail(f"12 MiB were used from another node, and the ticks say {found}")


def test_memory_that_came_home_is_not_remote_any_more(session: Session, observer: Observer) -> None:
    """The kernel moves it when it scans it again, which may take longer than a trial: then another one is made."""
    for _ in range(3):
        trial = run(PLANS["heals"], observer, session, ticks=25, has_healed=lambda one: told(one) < SLACK)
        assert trial.false == []
        said = [told(one) for one in trial.ticks]
        if max(said, default=0) > SLACK > said[-1]:
            return
    pytest.fail(f"memory came home, and the ticks say {said} bytes")
