"""Go's words for what is not JSON; its texts of numbers and truth values, and its quotes.

The table was made with Go's own encoding/json."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.encoding.go_syntax import GoSyntaxError, atoi, parse_bool, quote, syntax_error

END = "unexpected end of JSON input"


WHOLE = {
    b"": END,
    b" \n": END,
    b"{": END,
    b'{"a"': END,
    b'{"a":1': END,
    b"[1,": END,
    b'"abc': END,
    b'"abc\\\\': END,
    b"\x00\x00": r"invalid character '\x00' looking for beginning of value",
    b"{}{}": "invalid character '{' after top-level value",
    b"{}true": "invalid character 't' after top-level value",
    b"\x80": r"invalid character '\u0080' looking for beginning of value",
    b"'": r"invalid character '\'' looking for beginning of value",
    b'{"a"1}': "invalid character '1' after object key",
    b"\xef\xbb\xbf{}": "invalid character 'ï' looking for beginning of value",
    b"{a}": "invalid character 'a' looking for beginning of object key string",
    b'"a\nb"': r"invalid character '\n' in string literal",
    b"01": "invalid character '1' after top-level value",
}
"""A file that was cut short or filled up, and other damage of which the words are Go's to the end."""
BEGUN = {
    b'"abc\\': "invalid character ' ' in string escape code",
    b'"\\x"': "invalid character 'x' in string escape code",
    b'"\\u12"': "invalid character '\"' in \\u hexadecimal character escape",
    b"tru": "invalid character ' ' in literal true (expecting 'e')",
    b"nil": "invalid character 'i' in literal null (expecting 'u')",
    b"-": "invalid character ' ' in numeric literal",
    b"-x": "invalid character 'x' in numeric literal",
    b"1.": "invalid character ' ' after decimal point in numeric literal",
    b"1e+": "invalid character ' ' in exponent of numeric literal",
    b'{"a":1,}': "invalid character '}' looking for beginning of object key string",
    b'{"a":1"b"}': "invalid character '\"' after object key:value pair",
    b"[1 2]": "invalid character '2' after array element",
    b"[1,]": "invalid character ']' looking for beginning of value",
}


@pytest.mark.parametrize("data", [*WHOLE, *BEGUN])
def test_of_any_damage_the_words_are_gos_or_the_beginning_of_them(data: bytes) -> None:
    found = syntax_error(data)
    assert found
    assert found == WHOLE[data] if data in WHOLE else BEGUN[data].startswith(found)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.integers(0, 3),
)
def test_json_has_no_error(document: object, indent: int) -> None:
    assert syntax_error(json.dumps(document, indent=indent or None, ensure_ascii=indent > 1).encode()) is None


def test_text_that_is_no_utf_8_does_not_disturb_go() -> None:
    assert syntax_error(b'"\xff\xfe"') is None


def test_a_number_of_any_length_is_json_to_go() -> None:
    assert syntax_error(b"9" * 4301) is None
    assert syntax_error(b"[" + b"9" * 4301) == END


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
