"""What messages and names look like, whoever gave them."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from numaudit.errors import brief, escaped, hide, without_password

NAMES = st.binary(max_size=12).map(os.fsdecode) | st.text(
    st.sampled_from("\\xfu0nrt2dU\n\x85\xad\u200b\udcff\udc0a"), max_size=12
)


@given(NAMES, NAMES)
@example("\\xff", "\udcff")
@example("\\n", "\n")
@example("\\\\n", "\\\n")
@example("\\\\\n", "\\\\\\n")
@example("\x85", "\udc85")
@example("\\", "\\\\")
def test_any_two_names_are_escaped_apart(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) == (one == other)
    assert escaped(one).isprintable()


@pytest.mark.parametrize("name", ["/plain", "/dev-disk-by\\x2dlabel.swap", "/a\\slash", "/größe", "/end\\"])
def test_a_name_that_nobody_could_misread_stays_as_it_is(name: str) -> None:
    assert escaped(name) == name


@pytest.mark.parametrize(
    ("given_", "shown"),
    [
        ("http://host:9090/path", "http://host:9090/path"),
        ("https://[::1]:10250/pods", "https://[::1]:10250/pods"),
        ("http://user:pa ss@host/x y", "http://(hidden)@host/x y"),
        ("http://user:p@ss@host?token=abc", "http://(hidden)@host?(hidden)"),
        ("https://host/x?mail=a@b", "https://(hidden)"),
        ("http://user:pa/ss", "http://user:(hidden)"),
        ("//user:secret@host", "//(hidden)@host"),
        ("user:secret@host", "(hidden)@host"),
        ("host/x?token=abc", "host/x?(hidden)"),
        ("namespace=pro?", "namespace=pro?"),
        ("127.0.0.1:9746", "127.0.0.1:9746"),
    ],
)
def test_what_may_be_secret_in_a_value_is_hidden(given_: str, shown: str) -> None:
    assert hide(given_) == shown


def test_a_value_is_cut_after_its_secrets_are_hidden() -> None:
    assert brief(f"http://user:{'s' * 70}@host") == "http://(hidden)@host"
    assert brief("9" * 5000) == f"{'9' * 60}..."


@pytest.mark.parametrize(
    "words",
    [
        "http://host:9090: it is down",
        "no container matches 'user@1000.service'",
        "agent.yaml:3: what?",
        "'http://h:80',",
    ],
)
def test_a_message_without_a_secret_stays_as_it_is(words: str) -> None:
    assert without_password(words) == words


def test_a_secret_within_a_message_is_hidden() -> None:
    words = "cannot ask 'http://u:secret@host:1/x?token=abc': see http:/u:secret@host, u:secret@host"
    assert (
        without_password(words)
        == "cannot ask 'http://(hidden)@host:1/x?(hidden)': see http:/(hidden)@host, (hidden)@host"
    )


@pytest.mark.parametrize("unit", ["a:/", "?", "@:", "\\"])
def test_hiding_costs_in_proportion_to_the_text(unit: str) -> None:
    def seconds(times: int) -> float:
        text = f"{unit * times}@="
        begun = time.process_time()
        without_password(text), hide(text), escaped(text)
        return time.process_time() - begun

    assert min(seconds(100_000) for _ in range(3)) < 40 * min(seconds(10_000) for _ in range(3)) + 0.01
