"""Messages of Go's encoding/json about bytes that are not JSON: the kubelet passes them on, into its log.

Go looks at one byte at a time and names the first that does not fit. Of common damage (a file cut short, zeros,
something behind it) these are Go's words to the end; of other damage they are the beginning of its words.

Source: Go's encoding/json/scanner.go.
"""

from __future__ import annotations

import json
from typing import NoReturn

from numaudit.gojson.strconv import quote

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


class _Constant(Exception):
    """NaN or Infinity, which only Python takes."""


def syntax_error(data: bytes) -> str | None:
    """Go's words, such as `unexpected end of JSON input`; None = it is JSON."""
    # Bytes that are no UTF-8 do not disturb Go: each is one character here.
    text = data.decode("latin-1")
    try:
        json.loads(text, parse_int=str, parse_constant=_refuse_constant)  # Python reads 4,300 digits at most
    except json.JSONDecodeError as error:
        cut_short = error.msg.startswith("Unterminated string") or not text[error.pos :].strip(" \t\r\n")
        if cut_short and not (len(text) - len(text.rstrip("\\"))) % 2:
            return _END
        where, char = _WHERE.get(error.msg), text[error.pos : error.pos + 1]
        if where is None or not char or char in _INSIDE.get(error.msg, ""):
            return _INVALID
        return f"{_INVALID} {_quoted(char)} {where}"
    except _Constant:
        return _INVALID
    except RecursionError:
        return None
    return None


def _refuse_constant(_: str) -> NoReturn:
    raise _Constant


def _quoted(char: str) -> str:
    """A byte in single quotes; one above 127 is shown as the Unicode character of that number."""
    return {"'": r"'\''", '"': "'\"'"}.get(char) or f"'{quote(char)[1:-1]}'"
