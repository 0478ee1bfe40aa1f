"""A line of a log that klog wrote, in either format: time, message and fields. Pure.

Text: `I1120 22:38:22.328746 341 scope_container.go:93] "TopologyHints" hints={...} pod="ns/name"`; before Kubernetes
1.29 values are as Go prints them by %v and %+v: `hints=map[cpu:[{01 true} {NUMANodeAffinity:<nil> Preferred:false}]]`.
There a map is an object, a list a list, a struct with names an object and one without a list, `<nil>` None; all else is
a text. Go prints a list that is nil as an empty one: ().

JSON (`--logging-format=json`): `{"ts":1763678302328.7,"msg":"TopologyHints","hints":{...},"pod":{...}}`.

Sources: k8s.io/klog/v2 (internal/serialize of v2.9 to v2.100), k8s.io/component-base/logs/json, fmt/print.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from numaudit.errors import ParseError

MOST_LEVELS = 16

_WORD = re.compile(r"[^\s\[\]{}]+", re.ASCII)
_MAP_KEY = re.compile(r"([^\s\[\]{}:]+):", re.ASCII)
_FIELD = re.compile(r"([A-Za-z_]\w*):", re.ASCII)


def parse_at(text: str, at: int, level: int = 0) -> tuple[object, int]:
    """The value that begins there, and where it ends. Raises ParseError."""
    if level > MOST_LEVELS:
        raise ParseError(f"a value within more than {MOST_LEVELS} others")
    if text.startswith("map[", at):
        return _object(text, at + len("map["), "]", _MAP_KEY, level)
    if text.startswith("[", at):
        found, end = _list(text, at + 1, "]", level)
        return found or (), end
    if text.startswith("{", at):
        named = _FIELD.match(text, at + 1) is not None
        return _object(text, at + 1, "}", _FIELD, level) if named else _list(text, at + 1, "}", level)
    word = _WORD.match(text, at)
    if word is None:
        raise ParseError(f"expected a value: {text[at : at + 60]!r}")
    return None if word[0] == "<nil>" else word[0], word.end()


def _object(text: str, at: int, end: str, key: re.Pattern[str], level: int) -> tuple[object, int]:
    found: dict[str, object] = {}
    while not text.startswith(end, at):
        name = key.match(text, at)
        if name is None:
            raise ParseError(f"expected a name and a colon, or {end}: {text[at : at + 60]!r}")
        found[name[1]], at = parse_at(text, name.end(), level + 1)
        at += text.startswith(" ", at)
    return found, at + 1


def _list(text: str, at: int, end: str, level: int) -> tuple[list[object], int]:
    found: list[object] = []
    while not text.startswith(end, at):
        value, at = parse_at(text, at, level + 1)
        found.append(value)
        at += text.startswith(" ", at)
    return found, at + 1


LONGEST_LINE = 1 << 20
"""Characters; a line of hints of one provider has at most about 100 KB on eight nodes."""

_BY_SYSLOG = (
    r"[^\"{]{0,200}?\b(?:[\w.-]{1,60}\.)?"  # a snap's name
    r"(?:kubelet|kubenswrapper|k3s|kubelite|hyperkube|daemon(?:-kubelet|-kubelite)?)\[\d+\]: "
)
"""The prefix that syslog writes before a line, with the names of the programs that run a kubelet."""
_SYSLOG = re.compile(_BY_SYSLOG + r"(?=\{)", re.ASCII)
"""Before a line in JSON."""
_TEXT = re.compile(
    rf"(?:{_BY_SYSLOG})?"
    r"[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d\.\d{6}) +\d+ [^\]\s]+\] "
    r"(?P<message>\"(?:[^\"\\]|\\.)*\")(?P<fields>.*)",
    re.ASCII | re.DOTALL,
)
_KEY = re.compile(r" +([A-Za-z_][\w.-]*)=", re.ASCII)
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_BARE = re.compile(r"[^ ]*")
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_JSON = json.JSONDecoder()
_NOTHING = ("null", "<nil>")

Fields = Mapping[str, object]
"""Texts, values as JSON has them, and words without quotes."""


class KlogEntry(Struct, frozen=True):
    """One line that was understood."""

    at: float | None
    """Seconds since the epoch; None = not known."""
    message: str
    fields: Fields


def parse(line: str, *, known: Container[str], until: datetime, at: float | None = None) -> KlogEntry | None:
    """The line; None where it is not one of klog's, or its message is not among those `known`.

    `at` is better known to the journal than to klog's text, which has no year and no zone: there the
    latest year is taken that does not end up a day after `until`, in its zone. Raises ParseError when
    the message is known and the fields cannot be read.
    """
    if len(line) > LONGEST_LINE:
        return None
    body = _json_of(line)
    if body is not None:
        return _parse_json(body, known, at)
    match = _TEXT.match(line)
    if match is None:
        return None
    message = _unquote(match["message"])
    if message not in known:
        return None
    return KlogEntry(_time(match, until) if at is None else at, message, _fields(match["fields"]))


def is_entry(line: str) -> bool:
    """Has the line one of klog's two formats, whatever it says?"""
    if len(line) > LONGEST_LINE:
        return False
    body = _json_of(line)
    return _TEXT.match(line) is not None if body is None else _load(body) is not None


def in_utc(line: str, at: float) -> str:
    """The line with the time of its text in UTC; one of another format stays as it is."""
    match = _TEXT.match(line)
    if match is None:
        return line
    when = datetime.fromtimestamp(at, UTC)
    return f"{line[: match.start('month')]}{when:%m%d %H:%M:%S.%f}{line[match.end('time') :]}"


def shown(value: object) -> str:
    """A value in an error, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _json_of(line: str) -> str | None:
    """The part of a line that is JSON; None = it is text."""
    if line.startswith("{"):
        return line
    prefix = _SYSLOG.match(line)
    return None if prefix is None else line[prefix.end() :]


def _load(body: str) -> Mapping[str, object] | None:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and isinstance(fields.get("msg"), str) else None


def _parse_json(body: str, known: Container[str], at: float | None) -> KlogEntry | None:
    fields = _load(body)
    message = None if fields is None else fields["msg"]
    if fields is None or not isinstance(message, str) or message not in known:
        return None
    ts = fields.get("ts")
    if at is None and isinstance(ts, int | float) and 0 < ts < 1e14:
        at = ts / 1000 if ts > 1e11 else float(ts)
    return KlogEntry(at, message, fields)


def _time(match: re.Match[str], until: datetime) -> float | None:
    for year in range(until.year + 1, until.year - 9, -1):  # a leap day may be eight years ago
        text = f"{year}-{match['month']}-{match['day']}T{match['time']}"
        try:
            when = datetime.fromisoformat(text).replace(tzinfo=until.tzinfo)
        except ValueError:
            continue
        if when <= until + timedelta(days=1):
            return when.timestamp()
    return None


def _fields(text: str) -> Fields:
    """The `key=value` pairs. Strings are quoted as Go does, other values are JSON or plain words."""
    fields: dict[str, object] = {}
    at = 0
    while match := _KEY.match(text, at):
        at = match.end()
        if quoted := _QUOTED.match(text, at):
            value: object = _unquote(quoted[0])
            at = quoted.end()
        elif text.startswith(("{", "[", "map["), at):
            value, at = _structure(text, at, match[1])
        else:
            bare = _BARE.match(text, at)
            value = None if bare is None or bare[0] in _NOTHING else bare[0]
            at = at if bare is None else bare.end()
        fields[match[1]] = value
    if text[at:].strip():
        raise ParseError(f"expected key=value: {text[at : at + 60]!r}")
    return fields


def _structure(text: str, at: int, name: str) -> tuple[object, int]:
    try:
        return _JSON.raw_decode(text, at)
    except (ValueError, RecursionError):
        pass
    try:
        return parse_at(text, at)
    except ParseError as error:
        raise ParseError(f"the value of {name} is neither JSON nor as Go prints it: {error}") from None


def _unquote(quoted: str) -> str:
    """A Go string literal (strconv.Quote) without its quotes."""
    return quoted[1:-1] if "\\" not in quoted else _ESCAPE.sub(_unescape, quoted[1:-1])


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 1:
        return _ESCAPES.get(code, code)
    number = int(code[1:], 16)
    return chr(number) if number < 0x110000 else "\ufffd"
