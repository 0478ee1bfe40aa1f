"""The slots for connections, and who loses one when there are more.

A connection whose client must act (send its request, or read its answer) may be closed for a newer one: the one that
has been idle longest. One whose request is being answered may not.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from msgspec import Struct, field

GRACE = 0.1
"""Seconds that every client has before its connection may be closed for a newer one.

Less, and handshakes end early on a busy machine; more, and new connections wait longer for a slot.
"""
_LONGEST_WAIT = 0.5
"""Seconds that a new connection waits for a slot."""


class ClientConnection(Struct, eq=False):
    """One slot."""

    socket: socket.socket
    client: str
    """The address of the other side."""
    waiting_since: float
    """Time when its client last did what it had to."""
    deadline: float
    """Until when the client has to be done."""
    answering: bool = False
    """A whole request has arrived and is being answered: never closed to make room."""


class Connections(Struct):
    """All open connections. Who takes one more than allowed has another closed whose client must act."""

    most: int
    evicted: int = 0
    _open: set[ClientConnection] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, one: socket.socket, client: str, seconds: float) -> ClientConnection | None:
        """A new connection; None when no other could be closed for it for half a second."""
        with self._changed:
            if not self._wait_for_room():
                return None
            now = time.monotonic()
            connection = ClientConnection(one, client, now, now + seconds)
            self._open.add(connection)
        return connection

    def wrapped(self, connection: ClientConnection, by: socket.socket) -> None:
        """The same connection has become another socket object (TLS)."""
        with self._changed:
            connection.socket = by

    def waits(self, connection: ClientConnection, seconds: float) -> None:
        """From now on its client has this long to send, or to read."""
        now = time.monotonic()
        with self._changed:
            connection.answering, connection.waiting_since, connection.deadline = False, now, now + seconds
            self._changed.notify()

    def goes_on(self, connection: ClientConnection) -> None:
        """Its client has done a part of what it has to."""
        connection.waiting_since = time.monotonic()

    def answers(self, connection: ClientConnection, seconds: float) -> None:
        """A whole request is here."""
        with self._changed:
            connection.answering, connection.deadline = True, time.monotonic() + seconds

    def remove(self, connection: ClientConnection) -> None:
        with self._changed:
            self._open.discard(connection)
            self._changed.notify()

    def close_overdue(self) -> None:
        """Close those whose time is up, also when they send or read a byte now and then."""
        now = time.monotonic()
        with self._changed:
            for connection in [one for one in self._open if one.deadline < now]:
                self._close(connection)

    def close_all(self) -> None:
        with self._changed:
            for connection in list(self._open):
                self._close(connection)

    def _wait_for_room(self) -> bool:
        """Wait for a slot and return True when there is one: a free one, or that of a connection whose time has
        passed."""
        end = time.monotonic() + _LONGEST_WAIT
        while len(self._open) >= self.most:
            idle = (one for one in self._open if not one.answering)
            first = min(idle, key=lambda one: one.waiting_since, default=None)
            now = time.monotonic()
            left = (end if first is None else min(end, first.waiting_since + GRACE)) - now
            if left > 0:
                self._changed.wait(left)
            elif first is None:
                return False
            else:
                self._close(first)
                self.evicted += 1
        return True

    def _close(self, connection: ClientConnection) -> None:
        """Its thread wakes up with an error and ends; the slot is free at once."""
        self._open.discard(connection)
        with contextlib.suppress(OSError):  # the client was quicker
            # SSLSocket.shutdown ends the encryption first, and what its thread sends then would leave in the clear.
            socket.socket.shutdown(connection.socket, socket.SHUT_RDWR)
