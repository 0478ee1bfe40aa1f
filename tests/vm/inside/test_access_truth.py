"""The share by hint faults beside the truth, one trial each: `make truth` has many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from access_truth import PLANS, Trial, run
from numaudit.kernel.host import Host
from numaudit.probes.hint_faults import HINT_FAULTS
from numaudit.probes.session import Session

SLACK = 0.02
"""Beyond the interval, which need not hold in each single trial."""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session.open(Host(), [HINT_FAULTS], cgroups=100, nodes=16) as opened:
        yield opened


@pytest.mark.parametrize("name", ["one node, private 1:3", "one node, mixed", "two nodes, far from both"])
def test_where_no_node_races_another_intervals_hold(session: Session, name: str) -> None:
    """A trial that ends within a scan has some pages once more than others: then two of three have to hold."""
    trials = [run(PLANS[name], session)]
    if not _holds(trials[0]):
        trials += [run(PLANS[name], session), run(PLANS[name], session)]
    assert sum(map(_holds, trials)) > len(trials) / 2, trials


def _holds(trial: Trial) -> bool:
    access = trial.access
    assert access.remote_ratio is not None and access.lower is not None and access.upper is not None, trial
    return access.lower - SLACK < trial.truth < access.upper + SLACK


@pytest.mark.parametrize("name", ["two nodes, shared 1:1", "two nodes, private", "two nodes, bursty"])
def test_threads_on_two_nodes_get_no_share_of_near_pages(session: Session, name: str) -> None:
    trial = run(PLANS[name], session)
    assert (trial.access.remote_ratio, trial.access.lower, trial.access.upper) == (None, None, None), trial
    assert trial.access.reason is not None and "nodes 0-1" in trial.access.reason
