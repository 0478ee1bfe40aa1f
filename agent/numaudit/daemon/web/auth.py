"""Permission to connect and read: the rules of the web-config file as it is now, applied to certificates and passwords.

The file is read again when it or a file it names changes. A changed file that is wrong, or that drops protection
without saying so, is reported, and the one read before stays in force.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from numaudit.daemon.web.passwords import PasswordCheck, Passwords
from numaudit.daemon.web.rules import Rules, read_next_rules, read_rules
from numaudit.errors import InputError
from numaudit.kernel.own_files import state_of

_log = logging.getLogger(__name__)


class AccessRules(Struct):
    """The rules in force, kept up to date with the file. Without a file everybody may read. Safe for many threads."""

    path: Path | None = None
    valid: bool | None = None
    """False: the file on disk is wrong, and what was read before is in force."""
    passwords: Passwords = field(default_factory=Passwords)
    _rules: Rules = field(default_factory=Rules)
    _read_as: tuple[object, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def by(cls, path: Path | None) -> AccessRules:
        """Read the file. Raises InputError when it is wrong."""
        if path is None:
            return cls()
        rules = read_rules(path)
        return cls(path, True, _rules=rules, _read_as=state_of(rules.files))

    def now(self) -> Rules:
        """The rules by the files as they are at this moment."""
        if self.path is not None and state_of(self._rules.files) != self._read_as:
            self._read_again(self.path)
        return self._rules

    def headers(self) -> tuple[tuple[str, str], ...]:
        """HTTP headers for every answer."""
        return self._rules.headers

    def check(self, authorization: str, client: str) -> PasswordCheck:
        """Check the Authorization header of a client at this address by the rules that `now` last found."""
        users = self._rules.users
        if not users:
            return PasswordCheck.GOOD
        kind, _, coded = authorization.partition(" ")
        try:
            name, colon, password = base64.b64decode(coded.strip(), validate=True).decode().partition(":")
        except ValueError:  # binascii.Error and UnicodeError are such; base64 raises a plain one for what is not ASCII
            return PasswordCheck.WRONG
        if kind.lower() != "basic" or not colon:
            return PasswordCheck.WRONG
        return self.passwords.check(users, name, password.encode(), client)

    def _read_again(self, path: Path) -> None:
        with self._lock:
            state = state_of(self._rules.files)
            if state == self._read_as:  # another thread was quicker
                return
            try:
                rules = read_next_rules(path, self._rules)
            except InputError as error:
                self._read_as, self.valid = state, False
                _log.error("the changed web-config file is invalid, so the previous one stays in force: %s", error)
            else:
                self._rules, self._read_as, self.valid = rules, state_of(rules.files), True
                _log.info("the web-config file %s was read again", path)


def allows_certificate(rules: Rules, certificate: Mapping[str, Any] | None) -> bool:
    """Return True when a client's certificate, as SSLSocket.getpeercert() gives it, has one of the allowed names."""
    allowed = rules.allowed_names
    return not allowed or any(name in allowed for _, name in (certificate or {}).get("subjectAltName", ()))
