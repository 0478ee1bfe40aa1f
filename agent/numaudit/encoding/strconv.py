"""Go's strconv, as far as the kubelet's options and messages show it: ParseBool, Atoi, Quote.

Source: Go's strconv package.
"""

from __future__ import annotations

import re

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
