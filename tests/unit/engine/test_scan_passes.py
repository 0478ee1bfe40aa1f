"""What is kept of the kernel's scan passes from tick to tick."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import structs

from numaudit.engine.collectors.probes.pages_used import OnNodes, limited
from numaudit.engine.collectors.probes.scan_passes import ScanPasses
from numaudit.kernel.tasks import ProcessMemory
from numaudit.probes.hint_faults import PassUse, ScanPass
from numaudit.snapshot import Resident
from numaudit.snapshot.counted import HintFault, SeenRemote

WEB, PID, PAGE = 4711, 100, 4096
LOCAL, REMOTE, HOME = HintFault(0, 0, 8), HintFault(0, 1, 0), HintFault(0, 0, 1)
FROM_THREE, SHARED, SHARED_FROM_TWO = HintFault(3, 1, 0), HintFault(0, 1, 4), HintFault(2, 1, 4)
Seen = Mapping[HintFault, int]
Reading = dict[int, dict[ScanPass, PassUse]]


def reading(
    *passes: tuple[int, Seen], process: int = PID, image: int = 5, left_out: Mapping[int, int | None] | None = None
) -> Reading:
    """The map has these passes of a process, by number. `left_out`: pages, by pass."""
    out = {number: None if pages is None else pages * PAGE for number, pages in (left_out or {}).items()}
    return {
        WEB: {ScanPass(process, image, number): PassUse(dict(pages), out.get(number, 0)) for number, pages in passes}
    }


def after(*readings: Reading, interval: float = 15.0) -> SeenRemote | None:
    """What is known after ticks with these readings."""
    known, now = ScanPasses(), 0.0
    for number, one in enumerate(readings):
        now = number * interval
        known.take(one, PAGE, now)
    return known.of({WEB}, PAGE, now)


def pages(used: SeenRemote | None) -> int | None:
    """Used from another node, at least."""
    return None if used is None else used.at_least // PAGE


def passes(*seen: Seen, left_out: Mapping[int, int | None] | None = None) -> list[Reading]:
    """A reading in each of these passes, of which the newest goes on. Each reading has the one before, too."""
    numbered = list(enumerate(seen))
    return [reading(*numbered[max(0, at - 1) : at + 1], left_out=left_out) for at in range(len(seen))]


def test_a_page_may_have_faulted_twice_in_a_pass_so_half_of_the_faults_are_pages() -> None:
    used = after(reading((1, {REMOTE: 10, LOCAL: 500})))
    assert (pages(used), used and used.passes_since) == (5, 0)


def test_in_four_passes_a_page_faults_five_times_at_most() -> None:
    one = {REMOTE: 3000, LOCAL: 3000}
    assert [pages(after(*passes(*[one] * count))) for count in (1, 2, 3, 4, 5, 9)] == [
        1500, 2000, 2250, 2400, 2400, 2400,
    ]  # fmt: skip


def test_more_than_the_newest_pass_saw_is_not_told_of_it() -> None:
    used = after(*passes(*[{REMOTE: 3000}] * 3, {REMOTE: 10}, {REMOTE: 10}, {REMOTE: 10}))
    assert pages(used) == 10


def test_a_pass_that_saw_more_than_there_is_saw_it_twice() -> None:
    """32 MiB of faults where 24 were used remotely, of 37.5 mapped: a burst that came before and after the scan."""
    told = after(reading((0, {REMOTE: 8192, LOCAL: 4096})))
    assert told is not None and told.at_least <= 24 << 20


def test_what_a_pass_saw_stands_while_the_next_one_goes_on() -> None:
    one = {REMOTE: 3000}
    used = after(*passes(one, {LOCAL: 5}), *[reading((0, one), (1, {LOCAL: 5}))] * 30)
    assert pages(used) == 1500
    assert used is not None and used.age == 31 * 15


def test_two_passes_that_see_less_take_back_what_was_seen_and_one_alone_does_not() -> None:
    """The fault of a huge page may come in the pass after the one that marked it."""
    far, near = {REMOTE: 3000}, {LOCAL: 3000}
    assert pages(after(*passes(far, near, near))) == 1500
    assert pages(after(*passes(far, near, near, near))) == 0


@pytest.mark.parametrize(("left_out", "stands"), [(1499, 1499), (1500, 1500), (9000, 1500), (None, 1500)])
def test_a_pass_takes_back_nothing_of_what_it_left_out(left_out: int | None, stands: int) -> None:
    """None: the kernel does not say what it left out."""
    far, near = {REMOTE: 3000}, {LOCAL: 300}
    assert pages(after(*passes(far, near, near, near, left_out={1: 0, 2: left_out}))) == stands


@pytest.mark.parametrize(("seconds", "stands"), [(600, 1500), (601, 0)])
def test_what_no_pass_takes_back_ends_after_ten_minutes(seconds: int, stands: int) -> None:
    first, idle = passes({REMOTE: 3000}, {})
    known = ScanPasses()
    known.take(first, PAGE, 0.0)
    known.take(idle, PAGE, 1.0)
    assert pages(known.of({WEB}, PAGE, float(seconds))) == stands


@pytest.mark.parametrize(("seconds", "stands"), [(2000, 1500), (2001, 0)])
def test_of_a_large_process_it_stands_for_as_long_as_two_passes_take(seconds: int, stands: int) -> None:
    first, next_ = passes({REMOTE: 3000}, {LOCAL: 5})
    known = ScanPasses()
    known.take(first, PAGE, 0.0)
    known.take(next_, PAGE, 1000.0)
    assert pages(known.of({WEB}, PAGE, float(seconds))) == stands


def test_the_age_is_that_of_the_newest_fault_and_not_of_the_passs_end() -> None:
    used = after(reading((1, {REMOTE: 10})), reading((1, {REMOTE: 10, LOCAL: 5})), reading((1, {REMOTE: 10, LOCAL: 9})))
    assert used is not None and used.age == 30


def test_pages_that_are_brought_home_are_no_longer_remote() -> None:
    assert pages(after(*passes({REMOTE: 4000}, {HOME: 500}))) == 1500
    assert pages(after(*passes({REMOTE: 4000}, {HOME: 500}, {HOME: 300}))) == 1200
    assert pages(after(*passes({HOME: 4000}, {LOCAL: 1}))) == 0


def test_a_process_that_executes_another_program_begins_anew_whatever_its_passes_are_called() -> None:
    old, new = reading((0, {REMOTE: 3000}), image=5), reading((0, {LOCAL: 10}), image=6)
    assert pages(after(old, new)) == 0
    both = {WEB: {**old[WEB], **new[WEB]}}
    assert pages(after(old, both)) == 0


def test_another_process_of_the_same_id_begins_anew() -> None:
    assert pages(after(reading((7, {REMOTE: 3000}), (8, {REMOTE: 3000})), reading((0, {LOCAL: 10})))) == 0


def test_a_pass_whose_counts_begin_again_keeps_what_it_had_seen() -> None:
    """The probe's map was full, and had to make room."""
    assert pages(after(reading((1, {REMOTE: 3000, LOCAL: 10})), reading((1, {REMOTE: 100, LOCAL: 20})))) == 1500


def test_passes_that_do_not_follow_each_other_prove_no_more_than_each_alone() -> None:
    one = {REMOTE: 3000}
    assert pages(after(reading((1, one)), reading((1, one), (3, one)))) == 1500


def test_private_pages_of_processes_add_up_and_shared_ones_count_once_whoever_used_them() -> None:
    own, others = {REMOTE: 200, SHARED: 3000}, {FROM_THREE: 200, SHARED_FROM_TWO: 2000}
    both = {WEB: {**reading((1, own))[WEB], **reading((1, others), process=101)[WEB]}}
    found = after(both)
    assert found is not None
    assert {pair: size // PAGE for pair, size in found.by_pair.items()} == {(0, 1): 100 + 1500, (3, 1): 100}


def test_each_process_has_its_own_pages_and_shared_ones_count_for_each() -> None:
    known = ScanPasses()
    for process, own in ((PID, {REMOTE: 10, SHARED: 4}), (PID + 1, {LOCAL: 7, SHARED: 4})):
        known.take(reading((1, own), process=process), PAGE, 0.0)
    found = known.by_process({WEB}, PAGE, 0.0)
    assert {process: pages(used) for process, used in found.items()} == {PID: 7, PID + 1: 2}


def test_processes_and_cgroups_that_ended_are_forgotten() -> None:
    known = ScanPasses()
    known.take({**reading((1, {REMOTE: 10})), 5: reading((1, {REMOTE: 1}))[WEB]}, PAGE, 0.0)
    known.keep_only(WEB, {})
    assert known.of({WEB}, PAGE, 0.0) is None
    assert known.cgroups() == {5}
    known.keep_cgroups({WEB})
    assert known.cgroups() == set()


def used_of(**remote: int) -> SeenRemote:
    return SeenRemote({(int(pair[1]), int(pair[3])): size for pair, size in remote.items()}, 0.0, 0)


def limited_now(
    used: SeenRemote, resident: Resident | None, mapped: list[ProcessMemory], shmem_on: Mapping[int, int] = {}
) -> SeenRemote:
    return limited(used, resident, mapped, OnNodes.of(resident, shmem_on))


def test_no_more_bytes_are_used_on_a_node_than_are_there() -> None:
    resident = Resident(anon={0: 1000, 1: 300}, shmem={}, file={}, hugetlb={})
    found = limited_now(used_of(c0m1=400, c2m1=200), resident, [ProcessMemory(1300, 50, 0)])
    assert found.by_pair == {(0, 1): 200, (2, 1): 100}
    assert limited_now(used_of(c0m1=400), resident, []).by_pair == {(0, 1): 300}


def test_files_in_memory_that_no_process_maps_are_not_used() -> None:
    """What it used has moved from node 1 since the pass; what is in its tmpfs has not."""
    resident = Resident(anon={0: 1000}, shmem={1: 600}, file={1: 80}, hugetlb={1: 500}, mapped={0: 70, 1: 20})
    assert limited_now(used_of(c0m1=400), resident, []).by_pair == {(0, 1): 20}
    assert limited_now(used_of(c0m1=400), structs.replace(resident, mapped=None), []).by_pair == {(0, 1): 400}, (
        "that is not known"
    )


def test_shared_memory_of_others_may_be_used_beside_its_own() -> None:
    resident = Resident(anon={0: 1000}, shmem={}, file={}, hugetlb={})
    found = limited_now(used_of(c0m1=400), resident, [ProcessMemory(1000, 0, 400)])
    assert (found.by_pair, found.mapped) == ({(0, 1): 400}, 1400)


def test_shared_memory_of_others_is_used_only_on_nodes_that_have_any() -> None:
    """Its owner has moved most of it from node 1 since the pass that saw it there."""
    resident = Resident(anon={0: 1000}, shmem={1: 40}, file={}, hugetlb={})
    found = limited_now(used_of(c0m1=400, c0m2=300), resident, [ProcessMemory(1000, 0, 740)], {0: 900, 1: 100})
    assert found.by_pair == {(0, 1): 100, (0, 2): 300}, "of node 2 it is not known"


def test_what_processes_share_counts_once_as_far_as_their_container_holds_it() -> None:
    resident = Resident(anon={0: 1000}, shmem={0: 600}, file={0: 100}, hugetlb={0: 50})
    assert limited_now(used_of(), resident, [ProcessMemory(600, 0, 700)] * 2).mapped == 1000 + 1300 + 50
    assert limited_now(used_of(), resident, [ProcessMemory(600, 80, 700)] * 10).mapped == 1000 + 180 + 1300 + 50
    assert limited_now(used_of(), resident, [ProcessMemory(900, 80, 0)]).mapped == 900 + 80 + 50


def test_where_residence_is_not_known_processes_say_what_they_map() -> None:
    assert limited_now(used_of(c0m1=400), None, [ProcessMemory(1000, 5, 0), ProcessMemory(10, 6, 0)]).mapped == 1021
    assert limited_now(used_of(c0m1=400), None, []) == used_of(c0m1=400)


def test_what_has_left_its_node_since_may_all_be_of_what_was_used_from_another() -> None:
    then = Resident(anon={0: 1000, 1: 900}, shmem={}, file={}, hugetlb={})
    now = structs.replace(then, anon={0: 1300, 1: 600})
    was, on = OnNodes.of(then, {}), OnNodes.of(now, {})
    assert limited(used_of(c0m1=400), now, [], on, was).by_pair == {(0, 1): 100}
    assert limited(used_of(c0m1=400), then, [], was, on).by_pair == {(0, 1): 400}


def test_shared_memory_of_others_that_has_left_its_node_is_taken_back_though_more_of_others_is_there() -> None:
    own, maps = Resident(anon={0: 1000}, shmem={}, file={}, hugetlb={}), [ProcessMemory(1000, 0, 400)]
    then, on = OnNodes.of(own, {1: 1200}), OnNodes.of(own, {1: 800})
    assert limited(used_of(c0m1=400), own, maps, then, then).by_pair == {(0, 1): 400}
    assert limited(used_of(c0m1=400), own, maps, on, then).by_pair == {(0, 1): 0}
