"""A probe that counts nothing while the kernel takes samples is not reported as a container without accesses."""

from __future__ import annotations

import pytest

from numaudit.engine.collectors.probes.hint_faults import LEAST_UNSEEN, SanityCheck
from numaudit.errors import Unavailable
from numaudit.probes.hint_faults import HintFaultCounts
from numaudit.snapshot.counted import HintFault


def read(total: int) -> HintFaultCounts:
    return HintFaultCounts({4711: {HintFault(0, 1, 0): total}} if total else {})


def doubted(*ticks: tuple[int | None, int | None]) -> list[bool]:
    """At each tick: was the probe doubted? A tick is the kernel's count and the probe's, both since the start."""
    check, doubts = SanityCheck(), []
    for kernel, total in ticks:
        try:
            check.compare(kernel, None if total is None else read(total))
            doubts.append(False)
        except Unavailable:
            doubts.append(True)
    return doubts


def test_many_samples_of_the_kernels_and_none_of_the_probes_are_unavailable_with_the_number() -> None:
    check = SanityCheck()
    check.compare(500_000, read(7))
    with pytest.raises(Unavailable, match="counts nothing: the kernel took 5000 samples"):
        check.compare(505_000, read(7))


def test_what_the_kernel_counted_before_the_first_tick_proves_nothing() -> None:
    assert doubted((10**9, 0), (10**9, 0)) == [False, False]


def test_counters_of_ended_cgroups_that_were_deleted_show_that_the_probe_counts() -> None:
    check = SanityCheck()
    check.compare(0, read(7))
    check.compare(10**6, HintFaultCounts({}, forgotten=1))


def test_few_samples_add_up_over_the_ticks_and_the_doubt_stays_until_the_probe_counts() -> None:
    step = LEAST_UNSEEN // 2
    ticks = [(0, 0), (step, 0), (2 * step, 0), (2 * step, 0), (2 * step + 9, 1), (2 * step + 9, 1)]
    assert doubted(*ticks) == [False, False, True, True, False, False]


def test_a_probe_that_counts_a_part_is_not_doubted() -> None:
    assert doubted((0, 0), (10**6, 1), (2 * 10**6, 3)) == [False] * 3


@pytest.mark.parametrize("unknown", [(None, 0), (LEAST_UNSEEN, None)], ids=["kernel", "probe"])
def test_what_is_not_known_is_no_reason_for_doubt(unknown: tuple[int | None, int | None]) -> None:
    assert doubted((0, 0), unknown, (LEAST_UNSEEN + 10, 0)) == [False] * 3
