"""Which scan passes leave the probe's map, so that others find room."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from numaudit.probes.hint_faults import PassUse, ScanPass, passes_to_evict
from numaudit.snapshot.counted import HintFault

LOCAL = HintFault(0, 0, 8)
Counts = Mapping[tuple[int, int], int] | Mapping[tuple[int, ...], int]


def leaving(before: Counts, now: Counts, ended: Collection[int] = (), is_full: bool = False) -> set[tuple[int, ...]]:
    """Pages by process, its image where it is not the first, and pass, at two readings."""
    then, this = (
        {
            ScanPass(one[0], one[1] if len(one) == 3 else 1, one[-1]): PassUse({LOCAL: pages})
            for one, pages in reading.items()
        }
        for reading in (before, now)
    )
    found = passes_to_evict(this, then, lambda process: process in ended, is_full)
    return {(process, number) if image == 1 else (process, image, number) for process, image, number in found}


def test_only_the_newest_pass_of_each_process_stays_in_the_map() -> None:
    now = {(100, 4): 9, (100, 5): 9, (100, 6): 1, (101, 2): 9}
    assert leaving({(100, 4): 9}, now) == {(100, 4), (100, 5)}


def test_passes_of_a_process_that_has_ended_leave_once_nothing_is_added() -> None:
    assert leaving({(100, 4): 8}, {(100, 4): 9}, ended=[100]) == set()
    assert leaving({(100, 4): 9}, {(100, 4): 9}, ended=[100]) == {(100, 4)}
    assert leaving({(100, 4): 9}, {(100, 4): 9}) == set(), "its pass goes on"


def test_a_full_map_makes_room_by_passes_of_which_nothing_new_was_seen() -> None:
    before, now = {(100, 4): 9, (101, 4): 8}, {(100, 4): 9, (101, 4): 9, (102, 4): 9}
    assert leaving(before, now, is_full=True) == {(100, 4)}


def test_passes_of_a_program_that_a_process_has_left_behind_make_room_for_those_of_the_next() -> None:
    assert leaving({(100, 8): 9}, {(100, 8): 9, (100, 2, 0): 5, (100, 2, 1): 2}) == {(100, 8), (100, 2, 0)}


def test_passes_of_an_older_process_make_room_for_those_of_the_next_one_of_its_id() -> None:
    before, now = {(100, 7): 9, (100, 8): 9}, {(100, 8): 9, (100, 0): 5, (100, 1): 2}
    assert leaving(before, now) == {(100, 8), (100, 0)}


def test_a_late_fault_of_the_pass_before_takes_nothing_from_the_one_that_goes_on() -> None:
    assert leaving({(100, 8): 9}, {(100, 8): 9, (100, 7): 1}) == {(100, 7)}
