"""Kinds of settings: the form of a value. Flags and the environment give text; YAML also lists and mappings of text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from numaudit.errors import InputError, hide, may_be_a_file
from numaudit.exporters import selection
from numaudit.net.target import parse_url

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_NAME = re.compile(r"[^\s:?@]+")
"""Of a header or an attribute; a piece of a URL, which may hold a password, is none."""
_LONGEST_NUMBER = 20
"""Digits; no setting has more, and Python takes long for thousands."""
_SWITCH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class KindOf:
    """One kind: its description, how a value is read (ValueError = it is wrong), and how it is shown.

    A ValueError of a `private` kind says what is wrong without any part of the value, which may hold a password.
    """

    what: str
    parse: Callable[[Any], object]
    schema: Mapping[str, Any]
    """JSON schema of the values that a YAML file may have. It refuses none that `parse` takes."""
    show: Callable[[Any], str] = str
    private: bool = False
    says_why: bool = False
    """Is the text of a ValueError for people?"""


def _schema(*types: str, **rules: object) -> dict[str, object]:
    """An empty value leaves a setting as it is."""
    return {"type": [*types, "null"], **rules}


def url() -> KindOf:
    """An address in the web; empty = unset."""

    def parse(value: object) -> str | None:
        address = _text(value)
        if address:
            parse_url(address)
        return address or None

    schema = _schema("string", pattern="^$|^[hH][tT][tT][pP][sS]?://")
    return KindOf("an http:// or https:// URL", parse, schema, lambda value: hide(value or ""), private=True)


def number(least: int, most: int) -> KindOf:
    """A whole number."""

    def parse(value: object) -> int:
        found = int(_text(value)[:_LONGEST_NUMBER])
        if str(found) != value or not least <= found <= most:
            raise ValueError
        return found

    schema = _schema("integer", "string", minimum=least, maximum=most, pattern="^[0-9]+$")
    return KindOf(f"a whole number from {least} to {most}", parse, schema)


def percent(least: float, most: float) -> KindOf:
    """A number of percent, with or without its sign."""

    def parse(value: object) -> float:
        found = float(_text(value).removesuffix("%"))
        if not least <= found <= most:
            raise ValueError
        return found

    schema = _schema("number", "string", minimum=least, maximum=most)
    return KindOf(f"a percentage from {least:g} to {most:g}", parse, schema, lambda value: f"{value:g}")


def boolean() -> KindOf:
    """true or false."""

    def parse(value: object) -> bool:
        found = _SWITCH.get(_text(value).lower())
        if found is None:
            raise ValueError
        return found

    schema = _schema("boolean", "string", pattern=f"^(?i:{'|'.join(_SWITCH)})$")
    return KindOf("true or false", parse, schema, lambda value: "true" if value else "false")


def choice(*allowed: str) -> KindOf:
    """One of some words."""

    def parse(value: object) -> str:
        if value not in allowed:
            raise ValueError
        return _text(value)

    return KindOf(f"one of {', '.join(allowed)}", parse, {"enum": [*allowed, None]})


def choices(*allowed: str) -> KindOf:
    """Some of some words, each at most once."""

    def parse(value: object) -> tuple[str, ...]:
        words = _texts(value)
        if len(set(words)) != len(words) or not set(words) <= set(allowed):
            raise ValueError
        return tuple(words)

    schema = _schema("array", "string", items={"enum": [*allowed]}, uniqueItems=True)
    return KindOf(f"a list of {', '.join(allowed)}", parse, schema, lambda value: ", ".join(value) or _NONE)


_NONE = "none"
"""An empty list on one line."""


def _texts(value: object) -> list[str]:
    """A list of texts, or one line of them."""
    if isinstance(value, str):
        return [] if value.strip() == _NONE else [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("it is not text")
    return value


def selectors() -> KindOf:
    """Selectors of containers, one in each entry; on one line with commas between them."""

    def parse(value: object) -> tuple[selection.Selector, ...]:
        return tuple(map(selection.parse, _texts(value)))

    what = "a list of selectors, such as `namespace=prod`, `kind=slice` or `kind=service cgroup=/system.slice/*`"
    schema = _schema("array", "string", items={"type": "string"})
    return KindOf(what, parse, schema, lambda value: ", ".join(map(selection.show, value)) or _NONE)


def duration(least: float, most: float) -> KindOf:
    """A time in seconds; a plain number is seconds."""

    def parse(value: object) -> float:
        match = _DURATION.fullmatch(_text(value))
        if match is None:
            raise ValueError
        seconds = float(match[1]) * _SECONDS[match[2]]
        if not math.isfinite(seconds) or not least <= seconds <= most:
            raise ValueError
        return seconds

    schema = _schema("number", "string", minimum=least, maximum=most, pattern=f"^{_DURATION.pattern}$")
    return KindOf(f"a duration from {_seconds(least)} to {_seconds(most)}", parse, schema, _seconds)


def _seconds(value: float) -> str:
    return f"{value * 1000:g}ms" if value < 1 else f"{value:g}s"


def file() -> KindOf:
    """A path; empty = unset. A URL, which may hold a password, is none."""

    def parse(value: object) -> Path | None:
        path = _text(value)
        if "\0" in path:
            raise ValueError("a path cannot have a NUL in it")
        if not may_be_a_file(path):
            raise ValueError("it looks like a URL with a password; write ./ before the name of a file")
        return Path(path) if path else None

    return KindOf("a path", parse, _schema("string"), lambda value: "" if value is None else str(value), private=True)


def address() -> KindOf:
    """HOST:PORT to listen on; no host = all interfaces; an IPv6 host stands in brackets. Port 0 = any free one."""

    def parse(value: object) -> tuple[str, int]:
        host, colon, port = _text(value).rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValueError
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host or "@" in host or "/" in host:
            raise ValueError
        return host, int(port)

    def show(value: tuple[str, int]) -> str:
        host, port = value
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    return KindOf("HOST:PORT with a port up to 65535", parse, _schema("string", pattern=":[0-9]+$"), show)


def mapping() -> KindOf:
    """Names and texts; on one line as `name=text,name=text`."""

    def parse(value: object) -> tuple[tuple[str, str], ...]:
        if isinstance(value, str):
            pairs = [part.partition("=") for part in value.split(",") if part.strip()]
            if not all(equals for _, equals, _ in pairs):
                raise ValueError("a part of it has no =; write NAME=VALUE,NAME=VALUE")
            value = {name.strip(): what.strip() for name, _, what in pairs}
        if not isinstance(value, Mapping):
            raise ValueError("it is not a list of NAME=VALUE")
        if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in value):
            raise ValueError("a name in it is empty, or has a blank, a colon, ? or @")
        if not all(isinstance(what, str) for what in value.values()):
            raise ValueError("the value of a name must be text")
        return tuple(value.items())

    return KindOf(
        "names and texts (`name: text`, or name=text,name=text)",
        parse,
        _schema("object", "string", additionalProperties={"type": ["string", "number", "boolean"]}),
        lambda value: ", ".join(f"{name}={hide(what)}" for name, what in value),
        private=True,
    )


def reasons(check: Callable[[str], object]) -> KindOf:
    """Ids, each with a reason; `check` raises InputError for an id that does not exist."""
    texts = mapping()

    def parse(value: object) -> object:
        found = cast("tuple[tuple[str, str], ...]", texts.parse(value))
        try:
            for name, _ in found:
                check(name)
        except InputError as error:
            raise ValueError(str(error)) from None
        return found

    def show(value: tuple[tuple[str, str], ...]) -> str:
        return ", ".join(f"{name}={reason}" for name, reason in value)

    what = "ids and reasons (`id: reason`, or id=reason,id=reason)"
    return KindOf(what, parse, texts.schema, show, says_why=True)
