"""What is sent, sent again and counted, however a receiver behaves."""

from __future__ import annotations

import gc
import gzip
import logging
import time
from collections.abc import Iterator
from email.utils import formatdate

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.sdk.resources import Resource

from made_up.reports import LIVE, NOW, STARTED, container, exposition, report
from monitoring.otlp_receiver import Answer, OtlpReceiver
from numaudit.exporters.exposition import Exposition, evaluate_live
from numaudit.exporters.otel import PushPart, requests
from numaudit.exporters.otel import points as to_send
from numaudit.exporters.otlp_delivery import Delivery, Receiver
from numaudit.exporters.otlp_push import OtlpPusher
from processes.agent_process import PATIENCE

SENDER = Resource({})
TEXT = (("Content-Type", "text/plain"),)
BOMB = gzip.compress(bytes(64 << 20))


@pytest.fixture
def numbers() -> list[Exposition]:
    return [exposition(report(container(1), container(2, pod=None))), evaluate_live(LIVE, STARTED)]


@pytest.fixture
def collector() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as running:
        yield running


def _push(collector: OtlpReceiver, numbers: list[Exposition], timeout: float = PATIENCE) -> OtlpPusher:
    receiver = Receiver(collector.url, timeout, headers={"x-token": "secret"})
    return OtlpPusher(receiver, SENDER, lambda: numbers, interval=60)


def _deliver(collector: OtlpReceiver, *answers: Answer, timeout: float = PATIENCE, parts: int = 1) -> Delivery:
    """What came of a push of some parts of ten points each."""
    collector.answers = list(answers)
    return Receiver(collector.url, timeout).deliver([PushPart(b"", 10)] * parts)


def test_what_arrives_is_what_was_sent(collector: OtlpReceiver, numbers: list[Exposition]) -> None:
    push = _push(collector, numbers)
    before = time.time()
    assert push.push()
    points = collector.points()
    assert len(points) == to_send(numbers)
    assert points["numaudit.snapshot.age", frozenset()] == 3.5
    assert collector.headers[0]["x-token"] == "secret"
    assert collector.headers[0]["content-encoding"] == "gzip"
    counts = push.counts
    assert counts.points == {"delivered": len(points), "rejected": 0, "failed": 0}
    assert before <= (counts.last_success or 0) <= time.time()


@pytest.mark.parametrize(
    ("answer", "timeout", "reason"),
    [
        (Answer(400, body=b"bad \x1b[31m point", headers=TEXT), PATIENCE, r"400: bad \x1b[31m point"),
        (Answer(400, body=Status(message="no such tenant").SerializeToString()), PATIENCE, "400: no such tenant"),
        (Answer(400, body=b"\x01" * 100_000, headers=TEXT), PATIENCE, r"400: \x01\x01"),
        (Answer(400, body=BOMB, headers=(*TEXT, ("Content-Encoding", "gzip"))), PATIENCE, "400 without a message"),
        (Answer(429, retry_after="3600"), PATIENCE, "429: the next request waits for 300 s (Retry-After)"),
        (
            Answer(503, retry_after="200", body=b"full", headers=TEXT),
            PATIENCE,
            "503: the next request waits for 200 s (Retry-After): full",
        ),
        (
            Answer(302, headers=(("Location", "http://u:secret/1@elsewhere/x"),)),
            PATIENCE,
            "302: a redirect to http://(hidden)@elsewhere/x; it is not followed",
        ),
        (Answer(reset=True), 2.0, "Connection reset by peer"),
        (Answer(hangs=True), 0.7, "no complete answer within 0.7 s"),
        (Answer(drips=True), 0.7, "no complete answer within 0.7 s"),
        (Answer(drips_headers=True), 0.7, "no complete answer within 0.7 s"),
    ],
)
def test_a_receiver_that_does_not_take_it_is_counted_and_quoted(
    collector: OtlpReceiver,
    numbers: list[Exposition],
    answer: Answer,
    timeout: float,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    collector.answers = [answer] * 20
    push = _push(collector, numbers, timeout)
    assert not push.push()  # what hangs does so until the end of the test
    counts = push.counts
    assert counts.batches == {"delivered": 0, "failed": 1}
    assert counts.points == {"delivered": 0, "rejected": 0, "failed": to_send(numbers)}
    assert (counts.deliveries, counts.last_success) == (0, None)
    (line,) = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert f"failed; the agent keeps trying: {reason}" in line
    assert len(line) < 500
    assert "secret" not in line


def test_a_receiver_that_comes_back_gets_the_numbers_of_then(
    collector: OtlpReceiver, numbers: list[Exposition]
) -> None:
    collector.answers = [Answer(429, retry_after="0"), Answer(503), Answer(200)]
    push = _push(collector, numbers)
    assert push.push()
    assert push.counts.batches == {"delivered": 1, "failed": 0}
    assert len(collector.headers) == 3


def test_a_part_that_is_refused_does_not_keep_the_others_back(collector: OtlpReceiver) -> None:
    found = _deliver(collector, Answer(), Answer(400), Answer(rejected=3), parts=4)
    assert (found.delivered, found.rejected, found.problem) == (27, 3, "400 without a message")


def test_parts_share_one_connection(collector: OtlpReceiver) -> None:
    assert _deliver(collector, parts=3).delivered == 30
    assert (len(collector.headers), len(collector.clients)) == (3, 1)


def test_parts_share_one_deadline(collector: OtlpReceiver) -> None:
    found = _deliver(collector, Answer(), Answer(drips=True), timeout=3.0, parts=4)
    assert (found.delivered, found.problem) == (10, "no complete answer within 3 s")
    assert len(collector.headers) == 2


def test_a_receiver_that_asks_to_wait_longer_than_the_push_is_left_alone(collector: OtlpReceiver) -> None:
    found = _deliver(collector, Answer(), Answer(429, retry_after="300"), timeout=60, parts=4)
    assert (found.delivered, found.wait) == (10, 300)
    assert len(collector.headers) == 2


def test_the_wait_may_be_a_date(collector: OtlpReceiver) -> None:
    begun = time.time()
    found = _deliver(collector, Answer(503, retry_after=formatdate(begun + 250, usegmt=True)))
    assert 249 - (time.time() - begun) <= found.wait <= 251


@pytest.mark.parametrize("asked", ["301", "31536000", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_receiver_silences_the_agent_for_five_minutes_at_most(collector: OtlpReceiver, asked: str) -> None:
    assert _deliver(collector, Answer(503, retry_after=asked)).wait == 300


def test_a_wait_that_is_neither_seconds_nor_a_date_is_none(collector: OtlpReceiver) -> None:
    found = _deliver(collector, Answer(503, retry_after="soon"), Answer())
    assert (found.delivered, found.problem) == (10, None)


def test_the_next_push_waits_as_long_as_the_receiver_asks(collector: OtlpReceiver, numbers: list[Exposition]) -> None:
    collector.answers = [Answer(429, retry_after="2")]
    push = OtlpPusher(Receiver(collector.url, timeout=1.5), SENDER, lambda: numbers, interval=0.01)
    push.there_is_a_tick()
    push.start()
    try:
        assert collector.got_two.wait(PATIENCE)
    finally:
        push.stop(PATIENCE)
    first, second = collector.arrived[:2]
    assert second - first >= 2


@pytest.mark.parametrize(
    "answer",
    [
        Answer(endless=True),
        Answer(body=BOMB, headers=(("Content-Encoding", "gzip"),)),
        Answer(body=b"\xff\xff not a message"),
        Answer(body=b"", headers=TEXT),
    ],
)
def test_an_answer_that_says_nothing_is_one(collector: OtlpReceiver, answer: Answer) -> None:
    """The status says that the points were taken. The next part goes through as well."""
    found = _deliver(collector, answer, Answer(rejected=4), parts=2)
    assert (found.delivered, found.rejected, found.problem) == (16, 4, None)


@pytest.mark.parametrize(("said", "counted"), [(-5, 0), (2**62, 10)])
def test_no_more_points_are_rejected_than_were_sent(collector: OtlpReceiver, said: int, counted: int) -> None:
    found = _deliver(collector, Answer(rejected=said))
    assert (found.delivered, found.rejected) == (10 - counted, counted)


def test_parts_that_failed_are_not_kept(numbers: list[Exposition]) -> None:
    """Not even until Python searches for cycles, which the agent rarely lets it do."""
    with OtlpReceiver() as gone:
        url = gone.url
    gc.collect()
    gc.disable()
    try:
        assert Receiver(url, timeout=0.3).deliver(requests(numbers, SENDER, NOW)).delivered == 0
        assert not [one for one in gc.get_objects() if isinstance(one, PushPart)]
    finally:
        gc.enable()


def test_stopping_does_not_wait_for_a_receiver_that_hangs(collector: OtlpReceiver, numbers: list[Exposition]) -> None:
    collector.answers = [Answer(hangs=True)]
    push = _push(collector, numbers, timeout=3600)
    push.there_is_a_tick()
    push.start()
    assert collector.got_one.wait(PATIENCE)
    push.stop(1.0)  # the receiver hangs until the end of the test
    assert push._thread is not None
    push._thread.join(PATIENCE)
    assert not push._thread.is_alive()


def test_stopping_delivers_the_last_numbers(
    collector: OtlpReceiver, numbers: list[Exposition], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numaudit.exporters.otlp_push._LAST_PUSH", PATIENCE)
    push = _push(collector, numbers)
    push.there_is_a_tick()
    push.start()
    assert collector.got_one.wait(PATIENCE)
    push.stop(PATIENCE)
    assert push.counts.batches == {"delivered": 2, "failed": 0}
    assert push._thread is not None
    assert not push._thread.is_alive()
