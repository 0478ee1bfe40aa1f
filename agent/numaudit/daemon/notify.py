"""systemd's notifications: ready, stopping, still alive (sd_notify(3), sd_watchdog_enabled(3))."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from msgspec import Struct


class Notifier(Struct, frozen=True):
    """Tells systemd. Without systemd it does nothing."""

    address: str | None = None
    watchdog: float | None = None
    """Seconds without a sign of life after which systemd starts the service again."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Notifier:
        """From NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID."""
        address = environment.get("NOTIFY_SOCKET") or None
        if address is not None and address.startswith("@"):
            address = "\0" + address[1:]
        usec, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(os.getpid()))
        watched = usec.isdigit() and int(usec) > 0 and pid == str(os.getpid())
        return cls(address, int(usec) / 1e6 if watched else None)

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def alive(self) -> None:
        if self.watchdog is not None:
            self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if self.address is None:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.setblocking(False)
            try:
                channel.sendto(message.encode(), self.address)
            except OSError:
                return  # systemd is restarting: the next sign of life will do
