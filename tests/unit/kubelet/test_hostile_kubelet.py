"""Whoever answers at the kubelet's address: each answer ends in time, and takes no more memory than it may."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from numaudit.errors import Unavailable
from numaudit.kernel.host import Host
from numaudit.kubelet.sources.client import Endpoint, LiveKubelet
from numaudit.kubelet.sources.podresources import Client
from processes.hostile_http import FILLING, KEEPING, MIB, HostileServer, Peer, hostile, redirecting

DEADLINE = 0.5
LATE = 10.0
"""Seconds that a busy machine may add."""
LARGEST = MIB
MOST_MEMORY = 8 * LARGEST


def live(server: HostileServer, deadline: float = DEADLINE, **ca: object) -> LiveKubelet:
    endpoint = Endpoint(server.url, **ca)  # type: ignore[arg-type]
    return LiveKubelet(Host(), Client(Path("/nowhere")), endpoint=endpoint, deadline=deadline, largest=LARGEST)


@contextmanager
def in_time() -> Iterator[None]:
    begun = time.monotonic()
    with pytest.raises(Unavailable):
        yield
    assert time.monotonic() - begun < DEADLINE + LATE


@pytest.mark.parametrize("how", KEEPING)
def test_no_answer_takes_longer_than_the_deadline(how: str) -> None:
    with hostile(KEEPING[how]) as server:
        kubelet = live(server)
        with in_time():
            kubelet.pods()
        kubelet.close()


@pytest.mark.parametrize("how", FILLING)
def test_no_answer_takes_more_memory_than_a_few_times_its_limit(how: str) -> None:
    with hostile(FILLING[how]) as server:
        kubelet = live(server)
        tracemalloc.start()
        try:
            with in_time():
                kubelet.pods()
            assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
        finally:
            tracemalloc.stop()
        kubelet.close()


@pytest.mark.parametrize("how", ["says nothing", "drips its head"])
def test_a_deadline_holds_within_tls(how: str, fixtures: Path) -> None:
    with hostile(KEEPING[how], fixtures / "kubelet-tls") as server:
        kubelet = live(server, ca_file=fixtures / "kubelet-tls/kubelet.crt", check_name=False)
        with in_time():
            kubelet.pods()
        kubelet.close()


def test_a_handshake_that_never_ends_is_given_up() -> None:
    with hostile(KEEPING["says nothing"]) as server:
        kubelet = live(HostileServer(server.url.replace("http:", "https:")))
        with in_time():
            kubelet.pods()
        kubelet.close()


def test_a_handshake_that_drips_is_given_up() -> None:
    """The header of a record of TLS promises 16 KiB, which never come whole."""
    begin = b"\x16\x03\x03\x40\x00"

    def drip(peer: Peer) -> None:
        peer.send(begin)
        peer.send_forever(b"\x02", 0.01)

    with hostile(drip) as server:
        kubelet = live(HostileServer(server.url.replace("http:", "https:")))
        with in_time():
            kubelet.pods()
        kubelet.close()


def test_a_redirect_is_not_followed() -> None:
    server: list[HostileServer] = []
    with hostile(redirecting(server)) as one:
        server.append(one)
        kubelet = live(one, deadline=LATE)
        with pytest.raises(Unavailable, match="status 302"):
            kubelet.pods()
        kubelet.close()
    assert len(one.clients) == 1
