"""Passwords: what is remembered, and what wrong ones cost."""

from __future__ import annotations

import bcrypt
import pytest

from numaudit.daemon.web import auth
from numaudit.daemon.web.auth import (
    ATTEMPTS,
    MOST_ADDRESSES,
    SECONDS_PER_ATTEMPT,
    AttemptLimit,
    PasswordCheck,
    Passwords,
    network_of,
)

HASH = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4))
USERS = {"ali": HASH, "twin": HASH}


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
    monkeypatch.setattr(auth, "_REMEMBERED", 5)
    monkeypatch.setattr(auth, "ATTEMPTS", 100)
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
        monkeypatch.setattr(auth, "password_checker", lambda: self.check)

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
    assert [attempts.take("a") for _ in range(ATTEMPTS + 1)] == [True] * ATTEMPTS + [False]


def test_an_unknown_name_takes_as_many_hashes_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    checker, hasher = Passwords(), _Refusing(monkeypatch)
    for number, name in enumerate(("ali", "nobody", "")):
        for _ in range(2):
            checker.check(USERS, name, b"wrong", "a")
        assert hasher.asked == number + 1


def test_a_try_comes_back_every_few_seconds() -> None:
    clock = [1000.1]
    attempts = AttemptLimit(now=lambda: clock[0])
    assert [attempts.take("a") for _ in range(ATTEMPTS + 1)] == [True] * ATTEMPTS + [False]
    clock[0] += SECONDS_PER_ATTEMPT - 0.1
    assert not attempts.take("a")
    clock[0] += 0.1
    assert [attempts.take("a"), attempts.take("a")] == [True, False]
    attempts.refund("a")
    assert attempts.take("a")


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


def test_a_password_waits_a_while_for_the_one_before_it_and_is_then_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = Passwords()
    with checker.hashing:
        monkeypatch.setattr(auth, "LONGEST_WAIT", 0.01)
        assert checker.check(USERS, "ali", b"sesame", "a") is PasswordCheck.TOO_MANY
    assert [checker.attempts.take("a") for _ in range(ATTEMPTS + 1)] == [True] * ATTEMPTS + [False]
    assert checker.check(USERS, "ali", b"sesame", "b") is PasswordCheck.GOOD
