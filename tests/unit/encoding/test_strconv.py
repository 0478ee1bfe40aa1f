"""Go's number and truth texts, as the kubelet reads and quotes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.encoding.strconv import GoSyntaxError, atoi, parse_bool, quote


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_six_texts_are_true(text: str) -> None:
    assert parse_bool(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_six_texts_are_false(text: str) -> None:
    assert parse_bool(text) is False


@pytest.mark.parametrize("text", ["", "yes", "tRUE", " true", "true\n", "1.0", "01"])
def test_no_other_text_is_a_truth_value(text: str) -> None:
    with pytest.raises(GoSyntaxError, match=r"^strconv.ParseBool: parsing \".*\": invalid syntax$"):
        parse_bool(text)


@given(st.text(max_size=6))
def test_any_text_is_a_truth_value_or_refused(text: str) -> None:
    try:
        value = parse_bool(text)
    except GoSyntaxError as error:
        assert quote(text) in str(error)
    else:
        assert text in ("1 t T TRUE true True" if value else "0 f F FALSE false False").split()


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_int64_is_read(number: int) -> None:
    assert atoi(str(number)) == number


def test_a_sign_and_leading_zeros_are_fine() -> None:
    assert atoi("+8") == 8
    assert atoi("-08") == -8
    assert atoi("-9223372036854775808") == -(2**63)
    assert atoi("0" * 5000 + "8") == 8


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "9" * 5000])
def test_a_number_beyond_int64_is_out_of_range(text: str) -> None:
    with pytest.raises(GoSyntaxError, match=r"^strconv.Atoi: parsing \".*\": value out of range$"):
        atoi(text)


@pytest.mark.parametrize("text", ["", "8.0", "0x8", "1_000", " 8", "8 ", "٨", "+", "--8", "8\n"])
def test_other_texts_are_no_numbers(text: str) -> None:
    with pytest.raises(GoSyntaxError, match="invalid syntax"):
        atoi(text)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ('say "a\\b"', r'"say \"a\\b\""'),
        ("a\tb\n", r'"a\tb\n"'),
        ("\x00\x7f\x80", r'"\x00\x7f\u0080"'),
        ("Knoten ü", '"Knoten ü"'),
        ("\u2028\U000e0001", r'"\u2028\U000e0001"'),
    ],
)
def test_quoting_is_gos(text: str, quoted: str) -> None:
    assert quote(text) == quoted
