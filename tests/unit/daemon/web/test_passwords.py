"""Passwords: what is remembered, what wrong ones cost, and who is next."""

from __future__ import annotations

import threading

import bcrypt
import pytest

from numaudit.daemon.web import attempts as limits
from numaudit.daemon.web import passwords
from numaudit.daemon.web.attempts import (
    ATTEMPTS,
    MOST_ADDRESSES,
    MOST_WAITING,
    SECONDS_PER_ATTEMPT,
    AttemptLimit,
    PriorityLock,
    network_of,
)
from numaudit.daemon.web.passwords import PasswordCheck, Passwords

HASH = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4))
USERS = {"ali": HASH, "twin": HASH}
PATIENCE = 60.0


def test_a_verdict_for_one_user_serves_no_other_with_the_same_hash() -> None:
    checker = Passwords()
    assert checker.check(USERS, "ali", b"sesame", "a") is PasswordCheck.GOOD
    for stranger in ("baba", "ALI", ""):
        assert checker.check(USERS, stranger, b"sesame", "a") is PasswordCheck.WRONG
    assert checker.check({"twin": HASH}, "ali", b"sesame", "a") is PasswordCheck.WRONG
    assert checker.check(USERS, "twin", b"sesame", "a") is PasswordCheck.GOOD


def test_a_changed_password_ends_the_old_one() -> None:
    checker = Passwords()
    assert checker.check(USERS, "ali", b"sesame", "a") is PasswordCheck.GOOD
    changed = {"ali": bcrypt.hashpw(b"new", bcrypt.gensalt(4))}
    assert checker.check(changed, "ali", b"sesame", "a") is PasswordCheck.WRONG


def test_wrong_passwords_do_not_push_out_good_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_REMEMBERED", 5)
    monkeypatch.setattr(limits, "ATTEMPTS", 100)
    checker = Passwords()
    assert checker.check(USERS, "ali", b"sesame", "a") is PasswordCheck.GOOD
    for number in range(20):
        assert checker.check(USERS, "ali", b"%d" % number, "a") is PasswordCheck.WRONG
    assert len(checker._wrong) == 5
    hasher = _Refusing(monkeypatch)
    assert checker.check(USERS, "ali", b"sesame", "a") is PasswordCheck.GOOD
    assert hasher.asked == 0


class _Refusing:
    """A bcrypt that finds every password wrong, and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        monkeypatch.setattr(passwords, "password_checker", lambda: self.check)

    def check(self, password: bytes, hash_: bytes) -> bool:
        self.asked += 1
        return False


def test_over_its_budget_an_address_is_refused_without_hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = Passwords()
    assert checker.check(USERS, "ali", b"sesame", "a") is PasswordCheck.GOOD
    hasher = _Refusing(monkeypatch)
    verdicts = [checker.check(USERS, "ali", b"%d" % number, "a") for number in range(ATTEMPTS + 5)]
    assert verdicts == [PasswordCheck.WRONG] * ATTEMPTS + [PasswordCheck.TOO_MANY] * 5
    assert hasher.asked == ATTEMPTS
    assert checker.check(USERS, "ali", b"sesame", "a") is PasswordCheck.GOOD  # remembered: always
    assert checker.check(USERS, "ali", b"0", "b") is PasswordCheck.WRONG
    assert checker.check(USERS, "ali", b"x", "b") is PasswordCheck.WRONG  # another address


def test_the_same_wrong_password_costs_one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    checker, hasher = Passwords(), _Refusing(monkeypatch)
    for _ in range(5 * ATTEMPTS):
        assert checker.check(USERS, "ali", b"old", "a") is PasswordCheck.WRONG
    assert hasher.asked == 1


def test_a_right_password_costs_no_try() -> None:
    attempts = AttemptLimit()
    checker = Passwords(attempts=attempts)
    assert checker.check(USERS, "ali", b"sesame", "a") is PasswordCheck.GOOD
    assert attempts.take("a") == 1


def test_an_unknown_name_takes_as_many_hashes_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    checker, hasher = Passwords(), _Refusing(monkeypatch)
    for number, name in enumerate(("ali", "nobody", "")):
        for _ in range(2):
            checker.check(USERS, name, b"wrong", "a")
        assert hasher.asked == number + 1


def test_a_try_comes_back_every_few_seconds() -> None:
    clock = [1000.1]
    attempts = AttemptLimit(now=lambda: clock[0])
    assert [attempts.take("a") for _ in range(ATTEMPTS + 1)] == [*range(1, ATTEMPTS + 1), None]
    clock[0] += SECONDS_PER_ATTEMPT
    assert [attempts.take("a"), attempts.take("a")] == [ATTEMPTS, None]
    attempts.refund("a")
    assert attempts.take("a") == ATTEMPTS


def test_addresses_are_not_remembered_without_end() -> None:
    attempts = AttemptLimit()
    for number in range(MOST_ADDRESSES + 100):
        attempts.take(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(attempts) == MOST_ADDRESSES


@pytest.mark.parametrize(
    ("client", "counts_as"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::9", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
    ],
)
def test_an_ipv6_network_counts_as_one_client(client: str, counts_as: str) -> None:
    assert network_of(client) == counts_as


def _waiters(lock: PriorityLock, attempts: list[int]) -> tuple[list[threading.Thread], list[int], list[int]]:
    """Threads that wait one after another, and, by their attempts, who got the turn and who was sent away."""
    served: list[int] = []
    refused: list[int] = []

    def wait(attempts: int) -> None:
        if lock.acquire(attempts):
            served.append(attempts)
            lock.release()
        else:
            refused.append(attempts)

    threads = [threading.Thread(target=wait, args=(one,)) for one in attempts]
    for thread in threads:
        thread.start()
    return threads, served, refused


def test_whoever_has_the_fewest_tries_in_use_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LONGEST_WAIT", PATIENCE)
    lock = PriorityLock()
    assert lock.acquire(1)
    threads, served, _ = _waiters(lock, [9, 5, 7, 1])
    while len(lock._waiting) < 4:
        pass
    lock.release()
    for thread in threads:
        thread.join(PATIENCE)
    assert served == [1, 5, 7, 9]


def test_when_too_many_wait_those_with_the_most_tries_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LONGEST_WAIT", PATIENCE)
    lock = PriorityLock()
    assert lock.acquire(1)
    attempts = [*range(20, 10, -1)]
    threads, served, refused = _waiters(lock, attempts)
    while len(refused) < len(attempts) - MOST_WAITING:
        pass
    lock.release()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(refused) == [19, 20]
    assert sorted(served) == [*range(11, 19)]


def test_nobody_waits_for_a_turn_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LONGEST_WAIT", 0.01)
    lock = PriorityLock()
    assert lock.acquire(1)
    assert not lock.acquire(1)
    lock.release()
    assert lock.acquire(1)
