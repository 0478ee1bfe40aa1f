"""What is kept of the kernel's scan passes from tick to tick."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from numaudit.counted import HintFault, PagesUsed
from numaudit.engine.collectors.probes.pages_used import limited
from numaudit.engine.collectors.probes.scan_passes import ScanPasses
from numaudit.kernel.process_status import ProcessMemory
from numaudit.probes.hint_faults import PassUse, ScanPass
from numaudit.snapshot import Resident

WEB, PID, PAGE = 4711, 100, 4096
LOCAL, REMOTE, HOME = HintFault(0, 0, 8), HintFault(0, 1, 0), HintFault(0, 0, 1)
SHARED, NEAR_SHARED = HintFault(0, 1, 4), HintFault(3, 3, 4 | 8)
CAME_HOME = HintFault(0, 0, 4 | 8)
Seen = Mapping[HintFault, int]


def reading(*passes: tuple[int, Seen], process: int = PID, scanned_to: int = 0) -> dict[int, dict[ScanPass, PassUse]]:
    """The map has these passes of a process, by number."""
    return {WEB: {ScanPass(process, number): PassUse(dict(pages), scanned_to) for number, pages in passes}}


def after(
    *readings: Mapping[int, Mapping[ScanPass, PassUse]], interval: float = 15.0, mapped: ProcessMemory | None = None
) -> PagesUsed | None:
    """What is known after ticks with these readings. `mapped`: pages that the process maps."""
    known, now, size = ScanPasses(), 0.0, None if mapped is None else ProcessMemory(*(pages * PAGE for pages in mapped))
    for now, one in enumerate(readings):
        known.take(one, now * interval)
        known.keep_only(WEB, dict.fromkeys((PID, PID + 1), size), PAGE)
    return known.of({WEB}, PAGE, now * interval)


def pages(used: PagesUsed | None) -> tuple[int, int, int] | None:
    """Used from another node, from its own, and moved to the user."""
    if used is None:
        return None
    sizes = sum(used.remote.values()), sum(used.local.values()), used.home
    return (sizes[0] // PAGE, sizes[1] // PAGE, sizes[2] // PAGE)


def test_a_pass_that_goes_on_says_what_it_saw_until_one_is_through() -> None:
    used = after(reading((1, {REMOTE: 10})))
    assert (pages(used), used and used.is_whole) == ((10, 0, 0), False)


def test_of_two_passes_the_one_counts_that_saw_more_remote_and_the_one_that_saw_less_local() -> None:
    first, second = {REMOTE: 100, LOCAL: 50}, {REMOTE: 80, LOCAL: 60}
    used = after(reading((1, first)), reading((1, first), (2, second)), reading((2, second), (3, {LOCAL: 5})))
    assert pages(used) == (100, 50, 0)


def test_the_newest_complete_pass_counts_and_passes_are_never_added_up() -> None:
    same = {REMOTE: 3000, LOCAL: 3000}
    used = after(reading((1, same)), reading((1, same), (2, same)), reading((2, same), (3, {LOCAL: 5})))
    assert pages(used) == (3000, 3000, 0)
    assert used is not None and used.is_whole


def test_a_complete_pass_holds_until_the_next_one_is_through_however_slow_that_is() -> None:
    first = reading((1, {REMOTE: 3000, LOCAL: 3000}), (2, {LOCAL: 1}))
    used = after(first, *[first] * 100)
    assert pages(used) == (3000, 3000, 0)
    assert used is not None and used.age == 1500


def test_memory_that_came_home_is_local_two_passes_later() -> None:
    remote, home = {REMOTE: 3000, LOCAL: 1000}, {LOCAL: 4000}
    ticks = [reading((1, remote)), reading((1, remote), (2, home)), reading((2, home), (3, {LOCAL: 1}))]
    assert pages(after(*ticks)) == (3000, 1000, 0)
    assert pages(after(*ticks, reading((3, home), (4, home)))) == (0, 4000, 0)


def test_pages_that_are_brought_home_are_no_longer_remote() -> None:
    remote = {REMOTE: 4000}
    assert pages(after(reading((1, remote)), reading((1, remote), (2, {HOME: 1000})))) == (3000, 0, 0)
    moved = reading((1, {HOME: 4000}), (2, {LOCAL: 1}))
    assert pages(after(moved)) == (0, 0, 4000)


def test_a_pass_that_left_most_of_the_memory_out_says_nothing_of_it() -> None:
    whole, skipped = {REMOTE: 3000, LOCAL: 3000}, {LOCAL: 20}
    used = after(reading((1, whole)), reading((1, whole), (2, skipped)), reading((2, skipped), (3, skipped)))
    assert pages(used) == (3000, 3000, 0)


def test_memory_that_a_pass_left_out_is_as_the_pass_before_saw_it() -> None:
    near, far = {LOCAL: 3000}, {REMOTE: 3000}
    ticks = [reading((1, near)), reading((1, near), (2, far)), reading((2, far), (3, {LOCAL: 1}))]
    assert pages(after(*ticks)) == (3000, 3000, 0)


def test_passes_that_see_next_to_nothing_never_count() -> None:
    both, nothing = {REMOTE: 4000, LOCAL: 3000}, {LOCAL: 300}
    ticks = [
        reading((0, both), (1, both)),
        *(reading((number, nothing), (number + 1, nothing)) for number in range(2, 30)),
    ]
    assert pages(after(*ticks)) == (4000, 3000, 0)


def test_passes_that_see_little_are_right_when_they_are_many() -> None:
    both, near = {REMOTE: 4000, LOCAL: 3000}, {LOCAL: 3000}
    ticks = [reading((0, both), (1, both)), *(reading((number, near), (number + 1, near)) for number in range(2, 8))]
    assert pages(after(*ticks[:5])) == (4000, 3000, 0)
    assert pages(after(*ticks)) == (0, 3000, 0)


def test_near_pages_that_fault_twice_in_one_pass_and_never_in_the_next_count_once() -> None:
    once, twice = {LOCAL: 3000}, {LOCAL: 6000}
    ticks = [reading((1, once)), reading((1, once), (2, twice)), reading((2, twice), (3, once))]
    assert pages(after(*ticks)) == (0, 3000, 0)


def test_a_process_that_executes_another_program_begins_anew() -> None:
    old = {REMOTE: 3000}
    used = after(reading((7, old), (8, old)), reading((0, {LOCAL: 10})))
    assert pages(used) == (0, 10, 0)


def test_a_pass_through_a_large_process_rolls_over_what_the_one_before_saw_behind_it() -> None:
    """The last pass saw remote pages up to address 50 and local ones behind it; this one has come to 50."""
    ticks = [
        reading((1, {REMOTE: 1000}), scanned_to=25),
        reading((1, {REMOTE: 2000}), scanned_to=50),
        reading((1, {REMOTE: 2000, LOCAL: 1000}), scanned_to=75),
        reading((1, {REMOTE: 2000, LOCAL: 2000}), scanned_to=100),
        reading((1, {REMOTE: 2000, LOCAL: 2000}), (2, {LOCAL: 100}), scanned_to=5),
        *[reading((1, {REMOTE: 2000, LOCAL: 2000}), (2, {LOCAL: 2000}), scanned_to=50)] * 10,
    ]
    used = after(*ticks)
    assert pages(used) == (0, 4000, 0)
    assert used is not None and (used.age, used.is_whole) == (0, False)


def test_a_pass_whose_counts_begin_again_keeps_what_it_had_seen() -> None:
    """The probe's map was full, and had to make room."""
    used = after(reading((1, {REMOTE: 3000, LOCAL: 10})), reading((1, {REMOTE: 100, LOCAL: 20})))
    assert pages(used) == (3000, 20, 0)


def test_a_pass_says_nothing_after_an_hour() -> None:
    one = reading((1, {REMOTE: 10, LOCAL: 10}), (2, {LOCAL: 1}))
    assert pages(after(one, one, interval=3500.0)) is not None
    assert after(one, one, interval=3700.0) is None


def test_private_pages_of_processes_add_up_and_shared_ones_count_once() -> None:
    own = {REMOTE: 100, SHARED: 3000}
    both = {**reading((1, own))[WEB], **reading((1, own), process=101)[WEB]}
    assert pages(after({WEB: both})) == (3200, 0, 0)


def test_shared_pages_that_are_near_to_one_process_and_far_to_another_are_both() -> None:
    both = {**reading((1, {SHARED: 3000}))[WEB], **reading((1, {NEAR_SHARED: 3000}), process=101)[WEB]}
    assert pages(after({WEB: both})) == (3000, 3000, 0)


def test_shared_memory_that_its_owner_moved_home_is_not_known_twice() -> None:
    """The process maps no more than the 8000 pages that the newest pass saw near."""
    far, near, maps = {SHARED: 8000}, {CAME_HOME: 8000, LOCAL: 50}, ProcessMemory(anon=900, file=1000, shmem=8000)
    ticks = [reading((1, far)), reading((1, far), (2, near)), reading((2, near), (3, near))]
    assert pages(after(*ticks, mapped=maps)) == (1000, 8050, 0), "some file may be shared, too"
    ticks.append(reading((3, near), (4, {LOCAL: 1})))
    assert pages(after(*ticks, mapped=maps)) == (0, 8050, 0)


def test_what_a_process_maps_takes_nothing_from_what_the_newest_pass_saw() -> None:
    """The kernel's count of what a process maps may lag behind."""
    far, near = {SHARED: 4000}, {CAME_HOME: 4000}
    both = reading((1, far), (2, near)), reading((2, far | near), (3, {LOCAL: 1}))
    assert pages(after(*both, mapped=ProcessMemory(900, 1000, 1000))) == (4000, 4000, 0)
    joined = reading((1, far), (2, near)), reading((2, near), (3, {LOCAL: 1}))
    assert pages(after(*joined, mapped=ProcessMemory(900, 0, 8000))) == (4000, 4000, 0)
    assert pages(after(*joined)) == (4000, 4000, 0), "nobody may read what it maps"


def test_private_memory_that_was_moved_home_is_not_known_twice() -> None:
    far, near = {REMOTE: 8000}, {LOCAL: 8000}
    ticks = [reading((1, far)), reading((1, far), (2, near)), reading((2, near), (3, {LOCAL: 1}))]
    assert pages(after(*ticks, mapped=ProcessMemory(8000, 500, 0))) == (500, 8000, 0)


def test_processes_and_cgroups_that_ended_are_forgotten() -> None:
    known = ScanPasses()
    known.take({**reading((1, {REMOTE: 10})), 5: reading((1, {REMOTE: 1}))[WEB]}, 0.0)
    known.keep_only(WEB, {}, PAGE)
    assert known.of({WEB}, PAGE, 0.0) is None
    assert known.cgroups() == {5}
    known.keep_cgroups({WEB})
    assert known.cgroups() == set()


FAULTS = st.builds(HintFault, st.integers(0, 3), st.integers(0, 3), st.sampled_from((0, 1, 4, 8, 12, 16)))
PASSES = st.lists(st.dictionaries(FAULTS, st.integers(0, 5000), max_size=6), min_size=1, max_size=6)


@given(PASSES)
def test_any_passes_say_no_more_of_a_nodes_remote_pages_than_the_pass_that_saw_most_of_them(seen: list[Seen]) -> None:
    ticks = [reading(*list(enumerate(seen[: number + 1]))[-2:]) for number in range(len(seen))]
    used = after(*ticks)
    if used is None:
        return
    for node in range(4):
        found = sum(size for (_, there), size in used.remote.items() if there == node) // PAGE
        sides = [
            max(sum(count for fault, count in one.items() if _is_remote_on(fault, node, shared)) for one in seen)
            for shared in (False, True)
        ]
        assert 0 <= found <= sum(sides)


def _is_remote_on(fault: HintFault, node: int, shared: bool) -> bool:
    return fault.memory_node == node and fault.is_remote and not fault.has_moved and fault.is_shared == shared


def used_of(**remote: int) -> PagesUsed:
    pairs = {(int(pair[1]), int(pair[3])): size for pair, size in remote.items()}
    return PagesUsed(pairs, {0: 500}, 0, 0.0, is_whole=True)


def test_no_more_bytes_are_used_on_a_node_than_are_there() -> None:
    resident = Resident(anon={0: 1000, 1: 300}, shmem={}, file={}, hugetlb={})
    found = limited(used_of(c0m1=400, c2m1=200), resident, [ProcessMemory(1300, 50, 0)])
    assert found.remote == {(0, 1): 200, (2, 1): 100}
    assert limited(used_of(c0m1=400), resident, []).remote == {(0, 1): 300}


def test_files_in_memory_that_no_process_maps_are_not_used() -> None:
    """What it used has moved from node 1 since the pass; what is in its tmpfs has not."""
    resident = Resident(anon={0: 1000}, shmem={1: 600}, file={1: 80}, hugetlb={1: 500}, mapped={0: 70, 1: 20})
    assert limited(used_of(c0m1=400), resident, []).remote == {(0, 1): 20}
    assert limited(used_of(c0m1=400), structs.replace(resident, mapped=None), []).remote == {(0, 1): 400}, (
        "that is not known"
    )


def test_shared_memory_of_others_may_be_used_beside_its_own() -> None:
    resident = Resident(anon={0: 1000}, shmem={}, file={}, hugetlb={})
    found = limited(used_of(c0m1=400), resident, [ProcessMemory(1000, 0, 400)])
    assert (found.remote, found.mapped) == ({(0, 1): 400}, 1400)


def test_shared_memory_of_others_is_used_only_on_nodes_that_have_any() -> None:
    """Its owner has moved most of it from node 1 since the pass that saw it there."""
    resident = Resident(anon={0: 1000}, shmem={1: 40}, file={}, hugetlb={})
    found = limited(used_of(c0m1=400, c0m2=300), resident, [ProcessMemory(1000, 0, 740)], {0: 900, 1: 100})
    assert found.remote == {(0, 1): 100, (0, 2): 300}, "of node 2 it is not known"


def test_what_processes_share_counts_once_as_far_as_their_container_holds_it() -> None:
    resident = Resident(anon={0: 1000}, shmem={0: 600}, file={0: 100}, hugetlb={0: 50})
    assert limited(used_of(), resident, [ProcessMemory(600, 0, 700)] * 2).mapped == 1000 + 1300 + 50
    assert limited(used_of(), resident, [ProcessMemory(600, 80, 700)] * 10).mapped == 1000 + 180 + 1300 + 50
    assert limited(used_of(), resident, [ProcessMemory(900, 80, 0)]).mapped == 900 + 80 + 50


def test_where_residence_is_not_known_processes_say_what_they_map() -> None:
    assert limited(used_of(c0m1=400), None, [ProcessMemory(1000, 5, 0), ProcessMemory(10, 6, 0)]).mapped == 1021
    assert limited(used_of(c0m1=400), None, []) == used_of(c0m1=400)


def test_each_process_has_its_own_pages_and_shared_ones_count_for_each() -> None:
    known = ScanPasses()
    for process, own in ((PID, {REMOTE: 10, SHARED: 4}), (PID + 1, {LOCAL: 7, SHARED: 4})):
        known.take(reading((1, own), process=process), 0.0)
    found = known.by_process({WEB}, PAGE, 0.0)
    assert {process: pages(used) for process, used in found.items()} == {PID: (14, 0, 0), PID + 1: (4, 7, 0)}


def test_a_pass_of_a_process_says_nothing_after_an_hour() -> None:
    known = ScanPasses()
    known.take(reading((1, {REMOTE: 10}), (2, {LOCAL: 1})), 0.0)
    assert list(known.by_process({WEB}, PAGE, 3600.0)) == [PID]
    assert known.by_process({WEB}, PAGE, 3601.0) == {}
