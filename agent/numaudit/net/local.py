"""An HTTP connection to a socket of this machine."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from numaudit.net.connection import Connection
from numaudit.net.target import Target


class LocalConnection(Connection):
    """A connection to a Unix socket, with the same limits as any other."""

    def __init__(self, at: Path, seconds: float) -> None:
        super().__init__(Target("localhost", 80, "/", {"Accept-Encoding": "gzip"}, None), seconds)
        self._at = at

    def _addresses(self) -> list[tuple[int, int, int, str, Any]]:
        return [(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", str(self._at))]

    def _secured(self, plain: socket.socket) -> socket.socket:
        return plain
