"""Permission to connect and read: the rules of the web-config file as it is now, applied to certificates and passwords.

The file is read again when it or a file it names changes. A changed file that is wrong, or that drops protection
without saying so, is reported, and the one read before stays in force.

Clients that guess passwords cannot delay clients that know one: bcrypt takes tens of milliseconds on purpose, so
verdicts are remembered, good ones apart from wrong ones, which anybody can make; one password is hashed at a time, and
wrong ones are counted against the client's address.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum, auto
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from numaudit.daemon.web.rules import Rules, password_checker, read_next_rules, read_rules
from numaudit.errors import InputError
from numaudit.kernel.own_files import state_of

_log = logging.getLogger(__name__)


ATTEMPTS = 10
SECONDS_PER_ATTEMPT = 6.0
MOST_ADDRESSES = 4096
LONGEST_WAIT = 2.0
"""Seconds that a password waits to be hashed."""
_ROUNDING = 1e-6
"""Of seconds: sums of them are not exact."""
_REMEMBERED = 1000
"""Verdicts of each kind."""


class AttemptLimit(Struct):
    """The rate of wrong passwords of each client address. An address that is not listed has all its attempts.

    Addresses of an IPv6 network of 64 bits count as one, for any host may have as many of them as it likes.
    """

    now: Callable[[], float] = time.monotonic
    _full_at: dict[str, float] = field(default_factory=dict)
    """Address -> when it will have all its attempts again; what was used last comes last."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, client: str) -> bool:
        """Use one. False = there is none left."""
        address, now = network_of(client), self.now()
        with self._lock:
            full_at = max(now, self._full_at.pop(address, now))
            enough = full_at - now <= (ATTEMPTS - 1) * SECONDS_PER_ATTEMPT + _ROUNDING
            self._full_at[address] = full_at + SECONDS_PER_ATTEMPT if enough else full_at
            if len(self._full_at) > MOST_ADDRESSES:
                del self._full_at[next(iter(self._full_at))]
        return enough

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


class PasswordCheck(Enum):
    """Result of a check of a password."""

    GOOD = auto()
    WRONG = auto()
    TOO_MANY = auto()
    """Not checked: the client's address has tried too many wrong ones, or too many wait to be checked."""


class Passwords(Struct):
    """Checks passwords of many clients at once. A good one that is remembered needs no lock."""

    attempts: AttemptLimit = field(default_factory=AttemptLimit)
    hashing: threading.Lock = field(default_factory=threading.Lock)
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _good: dict[bytes, None] = field(default_factory=dict)
    _wrong: dict[bytes, None] = field(default_factory=dict)

    def check(self, users: Mapping[str, bytes], name: str, password: bytes, client: str) -> PasswordCheck:
        """`users` are names and bcrypt hashes, at least one. `client` is an address."""
        known = name in users
        hash_ = users[name] if known else self._stand_in(users, name)
        key = self._digest(b"known" if known else b"unknown", name.encode(), hash_, password)
        if key in self._good:
            return PasswordCheck.GOOD
        if key in self._wrong:
            return PasswordCheck.WRONG
        if not self.attempts.take(client):
            return PasswordCheck.TOO_MANY
        verdict = self._in_turn(key, password, hash_, known)
        if verdict is not PasswordCheck.WRONG:
            self.attempts.refund(client)
        return verdict

    def _in_turn(self, key: bytes, password: bytes, hash_: bytes, known: bool) -> PasswordCheck:
        if not self.hashing.acquire(timeout=LONGEST_WAIT):
            return PasswordCheck.TOO_MANY
        try:
            if key not in self._good and key not in self._wrong:  # nobody has asked the same meanwhile
                good = _matches(password, hash_) and known
                _remember(self._good if good else self._wrong, key)
            return PasswordCheck.GOOD if key in self._good else PasswordCheck.WRONG
        finally:
            self.hashing.release()

    def _stand_in(self, users: Mapping[str, bytes], name: str) -> bytes:
        """A hash for an unknown name, always the same one, so that the time does not reveal which names exist."""
        hashes = list(users.values())
        return hashes[int.from_bytes(self._digest(name.encode())[:8]) % len(hashes)]

    def _digest(self, *parts: bytes) -> bytes:
        digest = hashlib.blake2b(key=self._secret, digest_size=32)
        for part in parts:
            digest.update(len(part).to_bytes(8))
            digest.update(part)
        return digest.digest()


def _matches(password: bytes, hash_: bytes) -> bool:
    try:
        return password_checker()(password, hash_)
    except ValueError:  # longer than the 72 bytes that bcrypt can tell apart
        return False


def _remember(verdicts: dict[bytes, None], key: bytes) -> None:
    """Only who has the turn does."""
    if len(verdicts) >= _REMEMBERED:
        del verdicts[next(iter(verdicts))]
    verdicts[key] = None


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
