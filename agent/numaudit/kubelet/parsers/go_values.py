"""Values as Go's fmt prints them by %v and %+v, which klog did before it wrote JSON (kubelets before 1.29). Pure.

`map[cpu:[{01 true} {NUMANodeAffinity:<nil> Preferred:false}]]`: a map is an object, a list a list, a struct with names
an object and one without a list, `<nil>` None; all else is a text. Go prints a list that is nil as an empty one: ().

Source: fmt/print.go; k8s.io/klog/v2/internal/serialize of v2.9 to v2.100.
"""

from __future__ import annotations

import re

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
