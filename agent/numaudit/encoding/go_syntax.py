"""JSON as plain values, and Go's words about bytes that are not JSON: the kubelet passes them on, into its log. And
Go's strconv: numbers, truth values and quotes, as far as the kubelet's options and messages show them.

Go looks at one byte at a time and names the first that does not fit. Of common damage (a file cut short, zeros,
something behind it) these are Go's words to the end; of other damage they are the beginning of its words.

Source: Go's encoding/json/scanner.go, strconv.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

from numaudit.errors import ParseError

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_DECIMAL = re.compile(r"[+-]?[0-9]+", re.ASCII)
_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


class GoSyntaxError(ValueError):
    """Go's error for a text that it cannot read; the text is Go's."""


def parse_bool(text: str) -> bool:
    """Twelve spellings only; raises GoSyntaxError."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise GoSyntaxError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")


def atoi(text: str) -> int:
    """A decimal int64 with an optional sign; raises GoSyntaxError."""
    if not _DECIMAL.fullmatch(text):
        raise GoSyntaxError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    digits = text.lstrip("+-").lstrip("0") or "0"
    # 2^63 has 19 digits. Python refuses to convert very long texts, so they are not tried.
    number = int(digits) * (-1 if text[0] == "-" else 1) if len(digits) <= 19 else None
    if number is None or not -(2**63) <= number < 2**63:
        raise GoSyntaxError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return number


def quote(text: str) -> str:
    """The text as `%q` prints it: double quotes, with Go's escapes for what is not printable."""
    return '"' + "".join(_escape(char) for char in text) + '"'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_END = "unexpected end of JSON input"
_INVALID = "invalid character"
_WHERE = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
}
"""Errors for which Python's message means the same and names the same byte."""
_INSIDE = {"Expecting value": "tfn-NI", "Extra data": ".eE"}
"""Of a word or a number that begins so Python names another byte than Go."""


_MOST_DIGITS = 400
"""Go's largest number has 20 digits; Python refuses to convert more than 4300."""


class GoRefusal(ParseError):
    """A document that Go does not read, either. `in_go`: its words; None = they are not known, or it reads it."""

    def __init__(self, message: str, in_go: str | None) -> None:
        super().__init__(message)
        self.in_go = in_go


class NotJson(GoRefusal):
    """Bytes that are not JSON, or not UTF-8."""


class Repeated(dict[str, object]):
    """An object in which one key occurs more than once."""

    key: str


def load(data: bytes) -> object:
    """Read one document into dicts, lists, texts, numbers and None.

    Raises ParseError naming the place: no UTF-8, no JSON, nested too deep, a number of absurd length.
    """
    try:
        text = data.decode("utf-8")
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=_refuse_word)
    except UnicodeDecodeError as error:
        raise NotJson(f"byte {error.start} is not UTF-8", syntax_error(data)) from None
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg} at character {error.pos} of {len(text)}"
        raise NotJson(message, syntax_error(data)) from None
    except RecursionError:
        raise ParseError("not a checkpoint: nested too deep") from None
    except ParseError as error:  # of a number
        words = syntax_error(data)
        raise (GoRefusal if words is None else NotJson)(str(error), words) from None


def syntax_error(data: bytes) -> str | None:
    """Go's words, such as `unexpected end of JSON input`; None = it is JSON."""
    # Bytes that are no UTF-8 do not disturb Go: each is one character here.
    text = data.decode("latin-1")
    try:
        json.loads(text, parse_int=str, parse_constant=_refuse_word)  # Python reads 4,300 digits at most
    except json.JSONDecodeError as error:
        cut_short = error.msg.startswith("Unterminated string") or not text[error.pos :].strip(" \t\r\n")
        if cut_short and not (len(text) - len(text.rstrip("\\"))) % 2:
            return _END
        where, char = _WHERE.get(error.msg), text[error.pos : error.pos + 1]
        if where is None or not char or char in _INSIDE.get(error.msg, ""):
            return _INVALID
        return f"{_INVALID} {_quoted(char)} {where}"
    except ParseError:
        return _INVALID
    except RecursionError:
        return None
    return None


def _quoted(char: str) -> str:
    """A byte in single quotes; one above 127 is shown as the Unicode character of that number."""
    return {"'": r"'\''", '"': "'\"'"}.get(char) or f"'{quote(char)[1:-1]}'"


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    repeated = Repeated(value)
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            repeated.key = key
            break
        seen.add(key)
    return repeated


def _integer(text: str) -> float:
    if len(text) > _MOST_DIGITS:
        begin = f"not a checkpoint: a number of {len(text)} digits, {text[:10]}..."
        raise ParseError(f"{begin}: no field holds more than 20 digits")
    return -0.0 if text == "-0" else int(text)


def _refuse_word(name: str) -> NoReturn:
    """NaN or Infinity, which only Python takes."""
    raise ParseError(f"not JSON: {name}")
