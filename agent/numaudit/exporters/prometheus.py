"""Prometheus' text format and OpenMetrics 1.0, rendered once per tick and served as bytes.

Escaping, content types and the choice of format are prometheus-client's; its own renderer would take
several times as long (tests/bench/bench_render.py), since it formats every label of every sample again.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from isal import isal_zlib
from msgspec import Struct, field
from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

from numaudit.exporters.exposition import Exposition, MetricFamily
from numaudit.exporters.metric import IDENTITY, Metric
from numaudit.exporters.series import ContainerName, Labels

Format = Literal["text", "openmetrics"]

_FRACTIONS = ("seconds", "ratio")
"""Units of numbers that may be no whole ones."""
_GO_EXPONENT = 1e6
"""From here on Go writes an exponent where Python does not."""
_SCRAPES = 64
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"
"""No name, no time, packed fast, on any system."""
_RAW = -15
REMEMBERED_FOR = 300.0
"""Seconds that a form is rendered ahead of scrapes after the last one asked for it."""


class ScrapeForm(NamedTuple):
    """Format that a scraper asks for."""

    format: Format
    gzip: bool


def negotiate(accept: str, accept_encoding: str) -> tuple[ScrapeForm, str]:
    """The form for a request's headers, and its Content-Type."""
    _, content_type = choose_encoder(accept)
    format_: Format = "openmetrics" if content_type.startswith("application/openmetrics-text") else "text"
    return ScrapeForm(format_, accepts_gzip(accept_encoding)), content_type


def accepts_gzip(accept_encoding: str) -> bool:
    """Return True when the header's sender takes gzip."""
    for part in accept_encoding.lower().split(","):
        coding, _, weight = part.strip().partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def render(
    exposition: Exposition,
    format_: Format,
    created: bool = True,
    identities: dict[ContainerName, bytes] | None = None,
) -> bytes:
    """Whole families as text, without OpenMetrics' end mark. `created`: with `_created` in OpenMetrics.

    `identities`: each container's own labels as text, for its many families; those that it lacks are added.
    """
    known = {} if identities is None else identities
    return b"".join([_render_family(one, exposition, format_, created, known) for one in exposition.families])


def end_of(format_: Format) -> bytes:
    """Bytes that must come last."""
    return b"# EOF\n" if format_ == "openmetrics" else b""


def _render_family(
    family: MetricFamily,
    exposition: Exposition,
    format_: Format,
    created: bool,
    identities: dict[ContainerName, bytes],
) -> bytes:
    metric = family.metric
    has_fractions = metric.unit in _FRACTIONS
    is_dated = created and format_ == "openmetrics" and metric.is_counter
    templates: dict[tuple[tuple[Labels, ...], bool], bytes] = {}  # few differ
    pieces = [_head(family, format_)]
    for block in family.blocks:
        key, labels = block.key, block.labels
        began = exposition.created_at(metric, key) if is_dated else None
        lines = templates.get((labels, began is None))
        if lines is None:
            lines = templates[labels, began is None] = _lines(metric, key is not None, labels, began is not None)
        if began is not None:
            lines = lines.replace(_CREATED, _time(began))
        if key is not None:
            identity = identities.get(key)
            if identity is None:
                identity = identities[key] = _labels_text(IDENTITY, key)
            lines = lines.replace(_IDENTITY, identity)
        pieces.append(lines % (tuple(map(_go_float, block.numbers)) if has_fractions else block.numbers))
    return b"".join(pieces)


_IDENTITY, _CREATED = b"\0", b"\1"
"""Gaps of a template. No label has them, for what cannot be printed stands in names as an escape."""


def _lines(metric: Metric[Any], has_identity: bool, labels: Sequence[Labels], has_created: bool) -> bytes:
    """The lines of a block, with a gap for each number and for what only this container has.

    Bytes, for these are filled in half the time of a text.
    """
    identity = _IDENTITY if has_identity else b""
    name, gap = metric.full_name.encode(), b"%b" if metric.unit in _FRACTIONS else b"%a"
    lines = []
    for values in labels:
        own = _labels_text(metric.labels, values)
        inside = b"%b,%b" % (identity, own) if identity and own else identity or own
        braces = b"{%b}" % inside if inside else b""
        lines.append(b"%b%b %b\n" % (name, braces, gap))
        if has_created:
            lines.append(b"%b_created%b %b\n" % (metric.family.encode(), braces, _CREATED))
    return b"".join(lines)


def _go_float(number: float) -> bytes:
    if 0 <= number < _GO_EXPONENT:
        return b"%a" % float(number)
    text: str = floatToGoString(number)
    return text.encode()


@lru_cache(maxsize=4096)
def _time(seconds: float) -> bytes:
    """That of a container's begin stays, and many began together."""
    return _go_float(seconds)


def _head(family: MetricFamily, format_: Format) -> bytes:
    metric = family.metric
    kind = "counter" if metric.is_counter else "gauge"
    if format_ == "openmetrics" and metric.is_info:
        kind = "info"
    if format_ == "text":
        return f"# HELP {metric.full_name} {metric.help}\n# TYPE {metric.full_name} {kind}\n".encode()
    unit = f"# UNIT {metric.family} {metric.unit}\n" if metric.unit else ""
    return f"# HELP {metric.family} {metric.help}\n# TYPE {metric.family} {kind}\n{unit}".encode()


def _labels_text(names: tuple[str, ...], values: Labels) -> bytes:
    """Of a template, so a percent sign is doubled."""
    text = ",".join([f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True)])
    # Names are printable already where they are read; one that is not must not cost the others their values.
    return text.replace("%", "%%").encode("utf-8", "backslashreplace")


def _escape(value: str) -> str:
    if "\\" in value or "\n" in value or '"' in value:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value


class _Packed(NamedTuple):
    """A gzip stream that goes on: its part ends at a byte (a full flush), so that another one can follow.

    ISA-L packs it, in a quarter of zlib's time and to fewer bytes. Source: RFC 1951, RFC 1952.
    """

    stream: bytes
    crc: int
    size: int
    """Of what is packed, in bytes."""

    @classmethod
    def of(cls, text: bytes) -> _Packed:
        packer = isal_zlib.compressobj(1, wbits=_RAW)
        packed = packer.compress(text) + packer.flush(isal_zlib.Z_FULL_FLUSH)
        return cls(_GZIP_HEADER + packed, isal_zlib.crc32(text), len(text))

    def end(self, tail: bytes) -> bytes:
        """The rest of the stream, which packs `tail`."""
        packer = isal_zlib.compressobj(1, wbits=_RAW)
        last = packer.compress(tail) + packer.flush()
        return last + struct.pack("<II", isal_zlib.crc32(tail, self.crc), (self.size + len(tail)) & 0xFFFFFFFF)


class _Page(NamedTuple):
    """One tick in one form. What changes between ticks comes after it."""

    plain: bytes
    packed: _Packed | None

    @classmethod
    def of(cls, text: bytes, gzip: bool) -> _Page:
        return cls(b"", _Packed.of(text)) if gzip else cls(text, None)

    def with_tail(self, tail: bytes) -> tuple[bytes, bytes]:
        """Two parts, so that answers share the first, which is large."""
        return (self.plain, tail) if self.packed is None else (self.packed.stream, self.packed.end(tail))


class MetricPages(Struct):
    """The newest tick in every form that scrapers ask for. Safe to use from many threads."""

    live: Callable[[], Exposition]
    """The values of the very moment, added to each answer."""
    created: bool = True
    is_current: Callable[[], bool] = lambda: True
    """Returns True when the newest tick may still be served; else its series end, and only current values are given."""
    now: Callable[[], float] = time.monotonic
    scrapes: int = 0
    scraped_at: deque[float] = field(default_factory=lambda: deque(maxlen=_SCRAPES))
    """Times of the newest scrapes, by the clock `now`."""
    _exposition: Exposition | None = None
    _rendered: dict[ScrapeForm, _Page] = field(default_factory=dict)
    _asked: dict[ScrapeForm, float] = field(default_factory=dict)
    _identities: dict[ContainerName, bytes] = field(default_factory=dict)
    """Of the containers of the newest tick."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _first: threading.Lock = field(default_factory=threading.Lock)

    def publish(self, exposition: Exposition) -> None:
        """Take the next tick, and render it in the forms that were asked for lately. Called by one thread only."""
        with self._lock:
            oldest = self.now() - REMEMBERED_FOR
            self._asked = {form: at for form, at in self._asked.items() if at >= oldest}
            forms = list(self._asked)
        known = self._identities = {key: text for key, text in self._identities.items() if key in exposition.created}
        texts = {name: render(exposition, name, self.created, known) for name in {form.format for form in forms}}
        rendered = {form: _Page.of(texts[form.format], form.gzip) for form in forms}
        with self._lock:
            self._exposition, self._rendered = exposition, rendered

    def get(self, form: ScrapeForm) -> bytes | None:
        """The body of one answer; None before the first tick."""
        parts = self.parts(form)
        return None if parts is None else b"".join(parts)

    def parts(self, form: ScrapeForm) -> tuple[bytes, bytes] | None:
        """The same in two parts, the first of which all answers of a tick share."""
        with self._lock:
            self._asked[form] = self.now()
            exposition, rendered = self._exposition, self._rendered
            if exposition is None:
                return None
            is_current = self.is_current()
            if is_current:
                self.scrapes += 1
                self.scraped_at.append(self.now())
        if is_current and form not in rendered:
            with self._first:
                if form not in rendered:
                    rendered[form] = _Page.of(render(exposition, form.format, self.created), form.gzip)
        page = rendered[form] if is_current else _Page.of(b"", form.gzip)
        tail = render(self.live(), form.format, self.created) + end_of(form.format)
        return page.with_tail(tail)
