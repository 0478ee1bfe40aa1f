"""A bounded HTTP server: silent, slow, never-reading and too many clients cost the others nothing.

A connection gets a thread, and their number is limited. A TLS handshake runs in the connection's thread, never where
connections are accepted. Sockets block: whoever lets its time pass is closed by the thread that accepts.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
import threading
import time
from socketserver import TCPServer
from typing import Any, cast

from numaudit.daemon.web.auth import AccessRules, allows_certificate
from numaudit.daemon.web.connections import ClientConnection, Connections
from numaudit.daemon.web.conversation import Conversation, Site
from numaudit.daemon.web.rules import Rules
from numaudit.errors import InputError

_BACKLOG = 1024
_log = logging.getLogger(__name__)


class Server(TCPServer):
    """A service: serves a site until `stop`."""

    name = "web"
    request_queue_size = _BACKLOG
    allow_reuse_address = True

    def __init__(
        self, address: tuple[str, int], site: Site, access: AccessRules, connections: Connections, timeout: float = 5.0
    ) -> None:
        """Bind and listen. Raises InputError when the address cannot be had."""
        self.site, self.access, self.patience = site, access, timeout
        self.connections = connections
        self._stopped = False
        host, port = address
        try:
            found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            # `:PORT` means every address: one IPv6 socket also takes IPv4 where the host has both.
            found.sort(key=lambda one: one[0] != socket.AF_INET6 if not host else 0)
            self._bind(found)
        except OSError as error:
            raise InputError(
                f"cannot listen on {host or '*'}:{port}: {error.strerror or error}; "
                "choose an address of this host and a port that no other process has with --listen HOST:PORT"
            ) from error
        self._thread = threading.Thread(target=self.serve_forever, args=(0.2,), name="web", daemon=True)

    def _bind(self, found: list[Any]) -> None:
        problem: OSError | None = None
        for family, _, _, _, address in found:
            self.address_family = family
            try:
                super().__init__(address[:2], cast("Any", None))
                return
            except OSError as error:
                problem = error
        raise problem or OSError("no such address")

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    @property
    def port(self) -> int:
        return cast("int", self.socket.getsockname()[1])

    @property
    def address(self) -> str:
        """HOST:PORT, with brackets around an address of IPv6."""
        host, port = self.socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def exposure(self) -> str | None:
        """Warning about what strangers may read, and how to close it; None when only this host may connect."""
        host = self.socket.getsockname()[0]
        if ipaddress.ip_address(host.partition("%")[0]).is_loopback or not self.access.now().lets_strangers_read:
            return None
        return (
            f"whoever reaches port {self.port} may read the names of pods and namespaces, cgroup paths, the kubelet's "
            f"state and all findings: set web.config_file with users (and TLS) or required client certificates, or "
            f"listen on this host only (--listen 127.0.0.1:{self.port})"
        )

    def start(self) -> None:
        self._thread.start()

    def has_died(self) -> bool:
        """True when it no longer accepts connections although it was not stopped."""
        return self._thread.ident is not None and not self._stopped and not self._thread.is_alive()

    def stop(self, seconds: float = 1.0) -> None:
        """Take no more connections and close those there are; at most about half a second."""
        self._stopped = True
        if self._thread.ident is not None:  # else it waits without end for what never began
            self.shutdown()
        self.server_close()
        self.connections.close_all()

    def service_actions(self) -> None:
        self.connections.close_overdue()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(0.05)  # out of descriptors: the listening socket stays readable, so do not spin
            raise

    def process_request(self, request: object, client_address: object) -> None:
        accepted = cast("socket.socket", request)
        connection = self.connections.add(accepted, cast("tuple[str, int]", client_address)[0], self.patience)
        if connection is None:
            self.shutdown_request(accepted)
            return
        thread = threading.Thread(target=self._serve, args=(connection,), name="web", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads to be had
            self.connections.remove(connection)
            self.shutdown_request(accepted)

    def _serve(self, connection: ClientConnection) -> None:
        try:
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            rules = self.access.now()
            self._begin_tls(connection, rules)
            Conversation(connection, self.connections, self.site, self.access, rules.admission, self.patience).run()
        except (OSError, ValueError) as error:
            _log.debug("connection from %s ended: %s", connection.client, error)
        finally:
            self.connections.remove(connection)
            self.shutdown_request(connection.socket)

    def _begin_tls(self, connection: ClientConnection, rules: Rules) -> None:
        if rules.tls is None:
            return
        wrapped = rules.tls.wrap_socket(connection.socket, server_side=True, do_handshake_on_connect=False)
        self.connections.wrapped(connection, wrapped)
        wrapped.do_handshake()
        if not allows_certificate(rules, wrapped.getpeercert()):
            raise ssl.SSLError("the client's certificate has none of the allowed names")
