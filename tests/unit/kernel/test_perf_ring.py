"""Samples in a perf ring: wrap-around, lost records, and bytes that are no records."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up.ticks import tick_of
from numaudit.engine.collectors.base import SkippedItems
from numaudit.engine.collectors.probes.first_touch import FirstTouchCollector
from numaudit.errors import ParseError
from numaudit.kernel.host import Host
from numaudit.kernel.memory.physical import MemoryBlocks
from numaudit.kernel.tracing.perf_ring import (
    RECORD_LOST,
    RECORD_LOST_SAMPLES,
    RECORD_SAMPLE,
    RECORD_THROTTLE,
    RECORD_UNTHROTTLE,
    cut,
    decode,
)
from numaudit.probes import first_touch
from numaudit.probes.first_touch import FirstTouches
from numaudit.snapshot import Snapshot
from numaudit.topology.nodeset import NodeSet

WEB = 4711
RING = 4096


def record(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHH", kind, 0, 8 + len(body)) + body


def sample(address: int, cgroup: int) -> bytes:
    return record(RECORD_SAMPLE, struct.pack("=QQ", address, cgroup))


def lost(number: int) -> bytes:
    return record(RECORD_LOST, struct.pack("=QQ", 99, number))


def test_a_recorded_ring_that_overran_has_its_samples_and_its_losses(fixtures: Path) -> None:
    """From Linux 6.18: 503 pages were touched and 17 other faults taken, with a ring of one page read twice."""
    records = decode((fixtures / "perf-ring/page-faults.bin").read_bytes())
    assert (len(records.samples), records.lost, records.throttled, records.others) == (279, 241, 0, 0)
    samples = first_touch.decode(records.samples)
    assert {cgroup for _, cgroup in samples} == {16099}
    assert [address for address, _ in samples].count(0) == 1
    assert max(address for address, _ in samples) < 1 << 46


def test_records_of_every_kind_are_told_apart() -> None:
    data = (
        sample(0x1000, WEB)
        + lost(5)
        + record(RECORD_LOST_SAMPLES, struct.pack("=Q", 3))
        + record(RECORD_THROTTLE, bytes(24))
        + record(RECORD_UNTHROTTLE, bytes(24))
        + record(1, bytes(32))
        + sample(0x2000, WEB)
    )
    found = decode(data)
    assert first_touch.decode(found.samples) == [(0x1000, WEB), (0x2000, WEB)]
    assert (found.lost, found.throttled, found.others) == (8, 1, 1)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (FirstTouches(throttled=3), "times the kernel stopped sampling"),
        (FirstTouches(lost={"ring-full": 3}), "the ring was full"),
        (FirstTouches(lost={"no-address": 3}), "named no page"),
    ],
    ids=["throttled", "lost", "without address"],
)
def test_samples_that_are_missing_make_the_source_partial(read: FirstTouches, words: str) -> None:
    skipped = SkippedItems()
    tick = tick_of(Host(), {"first_touch": read})
    found = FirstTouchCollector().collect(tick, Snapshot(0.0, tick.machine, "v2"), skipped)
    assert found.first_touch == {}
    assert skipped.failed == 3
    assert words in (skipped.reason or "")


def test_nothing_is_no_record() -> None:
    assert decode(b"").samples == []
    assert cut(bytes(RING), 4096, 4096) == b""


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x09\0\0\0\0\0", "too few for a record's header"),
        (struct.pack("=IHH", RECORD_SAMPLE, 0, 24) + bytes(8), "16 are left"),
        (struct.pack("=IHH", RECORD_SAMPLE, 0, 4) + bytes(8), "says it has 4 bytes"),
        (struct.pack("=IHH", 0, 0, 0), "says it has 0 bytes"),
        (record(RECORD_LOST, bytes(8)), "only 8 bytes"),
    ],
    ids=["cut header", "cut body", "shorter than its header", "of no size", "cut loss"],
)
def test_a_cut_record_is_an_error_and_no_endless_loop(data: bytes, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        decode(data)


@pytest.mark.parametrize(("tail", "head"), [(8, 0), (0, RING + 8)])
def test_positions_that_do_not_belong_to_the_ring_are_an_error(tail: int, head: int) -> None:
    with pytest.raises(ParseError, match="not within its 4096 bytes"):
        cut(bytes(RING), tail, head)


def test_a_full_ring_is_read_whole() -> None:
    ring = bytes(range(256)) * 16
    assert cut(ring, RING + 8, 2 * RING + 8) == ring[8:] + ring[:8]


samples_ = st.tuples(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 64) - 1))
stretches = st.lists(st.one_of(samples_, st.integers(0, 1 << 32)), max_size=160)


@given(st.integers(0, 10 * RING), stretches)
def test_any_records_survive_any_place_in_the_ring(start: int, wanted: list[tuple[int, int] | int]) -> None:
    """Records as the kernel writes them, from any position on, around the end of the ring."""
    start -= start % 8
    data = b"".join(lost(one) if isinstance(one, int) else sample(*one) for one in wanted)
    ring = bytearray(RING)
    for at, byte in enumerate(data):
        ring[(start + at) % RING] = byte
    found = decode(cut(bytes(ring), start, start + len(data)))
    assert first_touch.decode(found.samples) == [one for one in wanted if not isinstance(one, int)]
    assert found.lost == sum(one for one in wanted if isinstance(one, int))


@given(st.binary(max_size=200))
def test_any_bytes_are_records_or_a_parse_error(data: bytes) -> None:
    try:
        found = decode(data)
        first_touch.decode(found.samples)
    except ParseError:
        return
    assert sum(len(one) + 8 for one in found.samples) <= len(data)


def test_a_page_is_on_the_node_of_its_memory_block() -> None:
    blocks = MemoryBlocks(1 << 27, {0: NodeSet.of(0), 1: NodeSet.of(0, 1), 2: NodeSet.of(1)})
    assert [first_touch.node_of_block(block, blocks) for block in range(4)] == [0, None, 1, None]


def test_a_sample_of_another_size_is_an_error() -> None:
    with pytest.raises(ParseError, match="16 bytes"):
        first_touch.decode([bytes(24)])


def test_two_reads_of_first_touches_give_what_came_between() -> None:
    earlier = FirstTouches({WEB: Counter({(0, 0): 5})}, 0, lost={"ring-full": 2, "no-address": 1})
    later = FirstTouches({WEB: Counter({(0, 0): 9, (0, 1): 1})}, 1, lost={"ring-full": 2, "no-address": 4})
    between = FirstTouches({WEB: {(0, 0): 4, (0, 1): 1}}, 1, lost={"ring-full": 0, "no-address": 3})
    assert later.since(earlier) == between
