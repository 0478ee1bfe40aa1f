"""Limits of wrong passwords for each client address, and the order of clients that wait.

An address has a number of attempts, and gets one back every few seconds. Addresses of an IPv6 network of 64 bits
count as one, for any host may have as many of them as it likes.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from bisect import insort
from collections.abc import Callable
from itertools import count

from msgspec import Struct, field

ATTEMPTS = 10
SECONDS_PER_ATTEMPT = 6.0
MOST_ADDRESSES = 4096
MOST_WAITING = 8
LONGEST_WAIT = 2.0
"""Seconds."""
_ROUNDING = 1e-6
"""Of attempts: sums of seconds are not exact."""


class AttemptLimit(Struct):
    """Attempts that each address has left. An address that is not listed has all."""

    now: Callable[[], float] = time.monotonic
    _full_at: dict[str, float] = field(default_factory=dict)
    """Address -> when it will have all its attempts again; what was used last comes last."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, client: str) -> int | None:
        """Use one. How many are in use now, this one included; None when there is none left."""
        address, now = network_of(client), self.now()
        with self._lock:
            full_at = max(now, self._full_at.pop(address, now))
            used = math.ceil((full_at - now) / SECONDS_PER_ATTEMPT - _ROUNDING)
            enough = used < ATTEMPTS
            self._full_at[address] = full_at + SECONDS_PER_ATTEMPT if enough else full_at
            if len(self._full_at) > MOST_ADDRESSES:
                del self._full_at[next(iter(self._full_at))]
        return used + 1 if enough else None

    def refund(self, client: str) -> None:
        """The password was right."""
        address = network_of(client)
        with self._lock:
            if address in self._full_at:
                self._full_at[address] -= SECONDS_PER_ATTEMPT

    def __len__(self) -> int:
        return len(self._full_at)


def network_of(client: str) -> str:
    """Network that counts as one client."""
    try:
        address = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return client
    if isinstance(address, ipaddress.IPv4Address):
        return client
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), 64), strict=False).network_address)


class PriorityLock(Struct):
    """One at a time, those with the fewest attempts in use first. Whoever would wait too long, or as one of too many,
    is sent away."""

    _waiting: list[tuple[int, int]] = field(default_factory=list)
    """Attempts in use and a number for each, best first."""
    _taken: bool = False
    _numbers: count[int] = field(default_factory=count)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def acquire(self, attempts: int) -> bool:
        """Wait for the turn. False = sent away; else `release` must follow."""
        with self._changed:
            me = (attempts, next(self._numbers))
            insort(self._waiting, me)
            if len(self._waiting) > MOST_WAITING:
                self._waiting.pop()
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_next(me) or me not in self._waiting, LONGEST_WAIT)
            if not self._is_next(me):
                if me in self._waiting:
                    self._waiting.remove(me)
                return False
            self._waiting.remove(me)
            self._taken = True
            return True

    def release(self) -> None:
        """Let the next one in."""
        with self._changed:
            self._taken = False
            self._changed.notify_all()

    def _is_next(self, one: tuple[int, int]) -> bool:
        return not self._taken and bool(self._waiting) and self._waiting[0] == one
