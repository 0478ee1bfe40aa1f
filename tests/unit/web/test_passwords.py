"""Passwords: what is remembered, what wrong ones cost, and who is next."""

from __future__ import annotations

import threading

import bcrypt
import pytest

from numaudit.web import budget, passwords
from numaudit.web.budget import MOST_ADDRESSES, MOST_WAITING, SECONDS_PER_TRY, TRIES, Tries, Turns, network_of
from numaudit.web.passwords import Passwords, Verdict

HASH = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4))
USERS = {"ali": HASH, "twin": HASH}
PATIENCE = 60.0


def test_a_verdict_for_one_user_serves_no_other_with_the_same_hash() -> None:
    checker = Passwords()
    assert checker.check(USERS, "ali", b"sesame", "a") is Verdict.GOOD
    for stranger in ("baba", "ALI", ""):
        assert checker.check(USERS, stranger, b"sesame", "a") is Verdict.WRONG
    assert checker.check({"twin": HASH}, "ali", b"sesame", "a") is Verdict.WRONG
    assert checker.check(USERS, "twin", b"sesame", "a") is Verdict.GOOD


def test_a_changed_password_ends_the_old_one() -> None:
    checker = Passwords()
    assert checker.check(USERS, "ali", b"sesame", "a") is Verdict.GOOD
    changed = {"ali": bcrypt.hashpw(b"new", bcrypt.gensalt(4))}
    assert checker.check(changed, "ali", b"sesame", "a") is Verdict.WRONG


def test_wrong_passwords_do_not_push_out_good_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_REMEMBERED", 5)
    monkeypatch.setattr(budget, "TRIES", 100)
    checker = Passwords()
    assert checker.check(USERS, "ali", b"sesame", "a") is Verdict.GOOD
    for number in range(20):
        assert checker.check(USERS, "ali", b"%d" % number, "a") is Verdict.WRONG
    assert len(checker._wrong) == 5
    hasher = _Refusing(monkeypatch)
    assert checker.check(USERS, "ali", b"sesame", "a") is Verdict.GOOD
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
    assert checker.check(USERS, "ali", b"sesame", "a") is Verdict.GOOD
    hasher = _Refusing(monkeypatch)
    verdicts = [checker.check(USERS, "ali", b"%d" % number, "a") for number in range(TRIES + 5)]
    assert verdicts == [Verdict.WRONG] * TRIES + [Verdict.TOO_MANY] * 5
    assert hasher.asked == TRIES
    assert checker.check(USERS, "ali", b"sesame", "a") is Verdict.GOOD  # remembered: always
    assert checker.check(USERS, "ali", b"0", "b") is Verdict.WRONG
    assert checker.check(USERS, "ali", b"x", "b") is Verdict.WRONG  # another address


def test_the_same_wrong_password_costs_one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    checker, hasher = Passwords(), _Refusing(monkeypatch)
    for _ in range(5 * TRIES):
        assert checker.check(USERS, "ali", b"old", "a") is Verdict.WRONG
    assert hasher.asked == 1


def test_a_right_password_costs_no_try() -> None:
    tries = Tries()
    checker = Passwords(tries=tries)
    assert checker.check(USERS, "ali", b"sesame", "a") is Verdict.GOOD
    assert tries.take("a") == 1


def test_an_unknown_name_takes_as_many_hashes_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    checker, hasher = Passwords(), _Refusing(monkeypatch)
    for number, name in enumerate(("ali", "nobody", "")):
        for _ in range(2):
            checker.check(USERS, name, b"wrong", "a")
        assert hasher.asked == number + 1


def test_a_try_comes_back_every_few_seconds() -> None:
    clock = [1000.1]
    tries = Tries(now=lambda: clock[0])
    assert [tries.take("a") for _ in range(TRIES + 1)] == [*range(1, TRIES + 1), None]
    clock[0] += SECONDS_PER_TRY
    assert [tries.take("a"), tries.take("a")] == [TRIES, None]
    tries.give_back("a")
    assert tries.take("a") == TRIES


def test_addresses_are_not_remembered_without_end() -> None:
    tries = Tries()
    for number in range(MOST_ADDRESSES + 100):
        tries.take(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(tries) == MOST_ADDRESSES


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


def _waiters(turns: Turns, tries: list[int]) -> tuple[list[threading.Thread], list[int], list[int]]:
    """Threads that wait one after another, and, by their tries, who got the turn and who was sent away."""
    served: list[int] = []
    refused: list[int] = []

    def wait(tries: int) -> None:
        if turns.take(tries):
            served.append(tries)
            turns.leave()
        else:
            refused.append(tries)

    threads = [threading.Thread(target=wait, args=(one,)) for one in tries]
    for thread in threads:
        thread.start()
    return threads, served, refused


def test_whoever_has_the_fewest_tries_in_use_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "LONGEST_WAIT", PATIENCE)
    turns = Turns()
    assert turns.take(1)
    threads, served, _ = _waiters(turns, [9, 5, 7, 1])
    while len(turns._waiting) < 4:
        pass
    turns.leave()
    for thread in threads:
        thread.join(PATIENCE)
    assert served == [1, 5, 7, 9]


def test_when_too_many_wait_those_with_the_most_tries_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "LONGEST_WAIT", PATIENCE)
    turns = Turns()
    assert turns.take(1)
    tries = [*range(20, 10, -1)]
    threads, served, refused = _waiters(turns, tries)
    while len(refused) < len(tries) - MOST_WAITING:
        pass
    turns.leave()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(refused) == [19, 20]
    assert sorted(served) == [*range(11, 19)]


def test_nobody_waits_for_a_turn_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "LONGEST_WAIT", 0.01)
    turns = Turns()
    assert turns.take(1)
    assert not turns.take(1)
    turns.leave()
    assert turns.take(1)
