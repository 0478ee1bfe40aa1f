"""What Go's encoding/json says of bytes that are not JSON, to the letter: the kubelet passes it on.

Source: Go's encoding/json/scanner.go. It looks at one byte at a time and names the first that does
not fit; at the end it looks for a space. Bytes that are no UTF-8 do not disturb it.
"""

from __future__ import annotations

import re
from typing import NoReturn

import msgspec

from numaudit.memorymanager.go.strconv import quote

_MOST_NESTED = 10000

_SPACE = re.compile(rb"[ \t\r\n]*")
_TEXT = re.compile(rb'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*')
_HEX = re.compile(rb"[0-9a-fA-F]*")
_DIGITS = re.compile(rb"[0-9]*")
_LITERALS = {b"t": b"true", b"f": b"false", b"n": b"null"}

_VALUE = "looking for beginning of value"
_KEY = "looking for beginning of object key string"


class _SyntaxError(Exception):
    """The text is Go's."""


def syntax_error(data: bytes) -> str | None:
    """Go's words, such as `unexpected end of JSON input`; None = it is JSON."""
    if _is_plain_json(data):
        return None
    try:
        _Scanner(data).document()
    except _SyntaxError as error:
        return str(error)
    return None


def _is_plain_json(data: bytes) -> bool:
    """The quick way to say yes; what a stricter reader refuses may still be JSON to Go."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


class _Scanner:
    def __init__(self, data: bytes) -> None:
        self.data = data + b" "
        self.at = 0
        self.open: list[bytes] = []
        """The brackets that will close what is open, outermost first."""

    def document(self) -> None:
        self._value()
        while self.open:
            if self._closes():
                continue
            in_object = self.open[-1] == b"}"
            self._expect(b",", "after object key:value pair" if in_object else "after array element")
            if in_object:
                self._key()
            self._value()
        if self._next():
            self._refuse("after top-level value")

    def _value(self) -> None:
        """One value, or the beginning of the innermost one."""
        while True:
            first = self._next(must=True)
            if first == b"{":
                self._begin(b"}")
                if self._closes():
                    return
                self._key()
            elif first == b"[":
                self._begin(b"]")
                if self._closes():
                    return
            else:
                self._scalar(first)
                return

    def _begin(self, closing: bytes) -> None:
        if len(self.open) == _MOST_NESTED:
            self._refuse("exceeded max depth")
        self.open.append(closing)
        self.at += 1

    def _closes(self) -> bool:
        """Does what is open end here? Then step over its end."""
        if self._next(must=True) != self.open[-1]:
            return False
        self.at += 1
        self.open.pop()
        return True

    def _key(self) -> None:
        self._expect(b'"', _KEY)
        self._text()
        self._expect(b":", "after object key")

    def _scalar(self, first: bytes) -> None:
        if first == b'"':
            self.at += 1
            self._text()
        elif first in _LITERALS:
            self._literal(_LITERALS[first])
        elif first == b"-" or first.isdigit():
            self._number()
        else:
            self._refuse(_VALUE)

    def _text(self) -> None:
        """The rest of a text whose opening quote was read."""
        self.at = self._after(_TEXT)
        here = self._here()
        if here == b"\\":
            self.at += 1
            if self._here() != b"u":
                self._refuse("in string escape code")
            self.at += 1
            self.at = self._after(_HEX)
            self._refuse("in \\u hexadecimal character escape")
        if not here:
            self._end()
        if here != b'"':
            self._refuse("in string literal")
        self.at += 1

    def _literal(self, word: bytes) -> None:
        for letter in word:
            if self._here() != bytes([letter]):
                self._refuse(f"in literal {word.decode()} (expecting {_quoted(letter)})")
            self.at += 1

    def _number(self) -> None:
        if self._here() == b"-":
            self.at += 1
        if self._here() == b"0":
            self.at += 1
        else:
            self._digits("in numeric literal")
        if self._here() == b".":
            self.at += 1
            self._digits("after decimal point in numeric literal")
        if self._here() in (b"e", b"E"):
            self.at += 1
            if self._here() in (b"+", b"-"):
                self.at += 1
            self._digits("in exponent of numeric literal")

    def _digits(self, where: str) -> None:
        """One or more."""
        if not self._here().isdigit():
            self._refuse(where)
        self.at = self._after(_DIGITS)

    def _expect(self, byte: bytes, where: str) -> None:
        if self._next(must=True) != byte:
            self._refuse(where)
        self.at += 1

    def _next(self, *, must: bool = False) -> bytes:
        """The next byte that is no white space; empty at the end."""
        self.at = self._after(_SPACE)
        here = self._here()
        if must and not here:
            self._end()
        return here

    def _here(self) -> bytes:
        return self.data[self.at : self.at + 1]

    def _after(self, pattern: re.Pattern[bytes]) -> int:
        match = pattern.match(self.data, self.at)
        return self.at if match is None else match.end()

    def _refuse(self, where: str) -> NoReturn:
        raise _SyntaxError(f"invalid character {_quoted(self.data[self.at])} {where}")

    def _end(self) -> NoReturn:
        raise _SyntaxError("unexpected end of JSON input")


def _quoted(byte: int) -> str:
    """A byte in single quotes; one above 127 is shown as the Unicode character of that number."""
    special = {ord("'"): r"'\''", ord('"'): "'\"'"}
    return special.get(byte) or f"'{quote(chr(byte))[1:-1]}'"
