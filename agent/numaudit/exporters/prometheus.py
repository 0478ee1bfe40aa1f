"""Prometheus' text format and OpenMetrics 1.0, rendered once per tick and served as bytes.

Escaping, content types and the choice of format are prometheus-client's; its own renderer would take
several times as long (tests/bench/bench_render.py), since it formats every label of every sample again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

from msgspec import Struct, field
from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

from numaudit.exporters.blocks import SeriesBlock
from numaudit.exporters.exposition import Exposition, MetricFamily
from numaudit.exporters.metric import IDENTITY, Metric
from numaudit.exporters.packed import Packed, Packer, Text
from numaudit.exporters.series import ContainerName, Labels

Format = Literal["text", "openmetrics"]

_FRACTIONS = ("seconds", "ratio")
"""Units of numbers that may be no whole ones."""
_GO_EXPONENT = 1e6
"""From here on Go writes an exponent where Python does not."""
_SCRAPES = 64
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


def render(exposition: Exposition, format_: Format, created: bool = True, before: Rendered | None = None) -> bytes:
    """Whole families as text, without OpenMetrics' end mark. `created`: with `_created` in OpenMetrics.

    `before` is what this format's last rendering left; this one replaces it.
    """
    return b"".join(chain.from_iterable(_texts(exposition, format_, created, before)))


def _texts(exposition: Exposition, format_: Format, created: bool, before: Rendered | None) -> list[Text]:
    """That of each family, in pieces; the very value of the last rendering where it is the same."""
    rendered = Rendered() if before is None else before
    identities, known = rendered.identities, rendered.families
    if exposition.created.keys() != identities.keys():
        rendered.identities = {key: identities.get(key) or _labels_text(IDENTITY, key) for key in exposition.created}
    rendered.families = {}
    for family in exposition.families:
        name = family.metric.full_name
        counts = created and format_ == "openmetrics" and family.metric.is_counter
        since = _Since.of(exposition, family.metric, counts)
        rendered.families[name] = _render_family(family, format_, since, rendered.identities, known.get(name))
    return [one.pieces for one in rendered.families.values()]


def end_of(format_: Format) -> bytes:
    """Bytes that must come last."""
    return b"# EOF\n" if format_ == "openmetrics" else b""


class _Since(NamedTuple):
    """Since when the counters of a family count, where that is to be shown."""

    container: Mapping[ContainerName, float] = {}
    others: float | None = None

    @classmethod
    def of(cls, exposition: Exposition, metric: Metric[Any], is_shown: bool) -> _Since:
        if not is_shown:
            return cls()
        is_container = metric.since == "container"
        return cls(exposition.created if is_container else {}, exposition.created_at(metric, None))

    def of_key(self, key: ContainerName | None) -> float | None:
        return self.others if key is None else self.container.get(key, self.others)


class _RenderedFamily(NamedTuple):
    """Parts that the next rendering can use again."""

    blocks: Sequence[SeriesBlock]
    pieces: Text
    """The head, then each block's lines."""
    since: _Since

    def has(self, blocks: Sequence[SeriesBlock]) -> bool:
        """Are its blocks these? Most often they are the very same."""
        return self.blocks is blocks or self.blocks == blocks

    def of(self, blocks: Sequence[SeriesBlock], since: _Since) -> list[bytes | None]:
        """The lines of each block that would be the same: what did not change is the very same block, most often in
        its place. None = they have to be made.
        """
        if len(blocks) == len(self.blocks):
            lines = islice(self.pieces, 1, None)
            found = [
                text if block is last else None for block, last, text in zip(blocks, self.blocks, lines, strict=True)
            ]
        else:
            known = dict(zip(map(id, self.blocks), islice(self.pieces, 1, None), strict=True))
            found = [known.get(id(block)) for block in blocks]
        if self.since == since:
            return found
        return [
            text if self.since.of_key(block.key) == since.of_key(block.key) else None
            for block, text in zip(blocks, found, strict=True)
        ]


class Rendered(Struct):
    """Parts of a rendering that the next one takes over."""

    families: dict[str, _RenderedFamily] = field(default_factory=dict)
    """By name."""
    identities: dict[ContainerName, bytes] = field(default_factory=dict)
    """The labels of each container as text."""


def _render_family(
    family: MetricFamily,
    format_: Format,
    since: _Since,
    identities: Mapping[ContainerName, bytes],
    before: _RenderedFamily | None,
) -> _RenderedFamily:
    # Facts and verdicts hardly ever change from tick to tick.
    if before is not None and before.since == since and before.has(family.blocks):
        return before
    last = [None for _ in family.blocks] if before is None else before.of(family.blocks, since)
    has_fractions, is_dated, began = family.metric.unit in _FRACTIONS, since != _Since(), since.container
    templates: dict[tuple[Labels, ...], bytes] = {}
    pieces = [_head(family, format_)]
    template, of_labels, of_created = b"", None, None
    for block, text in zip(family.blocks, last, strict=True):
        if text is not None:
            pieces.append(text)
            continue
        key, labels = block.key, block.labels
        created = None
        if is_dated:
            created = since.others if key is None else began.get(key, since.others)
        if labels is not of_labels or created != of_created:  # neighbours mostly have the same
            of_labels, of_created = labels, created
            template = templates.get(labels) or _lines(family.metric, key is not None, labels, created is not None)
            templates[labels] = template  # few differ
            if created is not None:
                template = template.replace(_CREATED, _time(created))
        lines = template
        if key is not None:
            lines = lines.replace(_IDENTITY, identities.get(key) or _labels_text(IDENTITY, key))
        numbers = tuple(map(_go_float, block.numbers)) if has_fractions else block.numbers
        pieces.append(lines % numbers)
    return _RenderedFamily(family.blocks, pieces, since)


_IDENTITY, _CREATED = b"\0", b"\1"
"""Gaps of a template. No label has them, for what cannot be printed stands in names as an escape."""


def _lines(metric: Metric[Any], has_identity: bool, labels: Sequence[Labels], has_created: bool) -> bytes:
    """The lines of a block, with a gap for each number and for what only this container has.

    Bytes, for these are filled in half the time of a text.
    """
    identity = _IDENTITY if has_identity else b""
    name, family = metric.full_name.encode(), metric.family.encode()
    gap = b"%b" if metric.unit in _FRACTIONS else b"%a"
    lines = []
    for values in labels:
        own = _labels_text(metric.labels, values)
        inside = b"%b,%b" % (identity, own) if identity and own else identity or own
        braces = b"{%b}" % inside if inside else b""
        lines.append(b"%b%b %b\n" % (name, braces, gap))
        if has_created:
            lines.append(b"%b_created%b %b\n" % (family, braces, _CREATED))
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


class _Page(NamedTuple):
    """One tick in one form. What changes between ticks comes after it."""

    plain: bytes
    packed: Packed | None

    @classmethod
    def of(cls, texts: Sequence[Text], gzip: bool, packer: Packer | None = None) -> _Page:
        if not gzip:
            return cls(b"".join(chain.from_iterable(texts)), None)
        return cls(b"", (packer or Packer()).pack(texts))

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
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _before: dict[Format, Rendered] = field(default_factory=dict)
    _packers: dict[Format, Packer] = field(default_factory=dict)
    _first: threading.Lock = field(default_factory=threading.Lock)

    def publish(self, exposition: Exposition) -> None:
        """Take the next tick, and render it in the forms that were asked for lately. Called by one thread only."""
        with self._lock:
            oldest = self.now() - REMEMBERED_FOR
            self._asked = {form: at for form, at in self._asked.items() if at >= oldest}
            forms = list(self._asked)
        texts = {
            name: _texts(exposition, name, self.created, self._before.setdefault(name, Rendered()))
            for name in dict.fromkeys(form.format for form in forms)
        }
        rendered = {
            form: _Page.of(texts[form.format], form.gzip, self._packers.setdefault(form.format, Packer()))
            for form in forms
        }
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
            # What the tick's rendering uses again is left alone, so that nobody waits for that.
            with self._first:
                if form not in rendered:
                    rendered[form] = _Page.of(_texts(exposition, form.format, self.created, None), form.gzip)
        page = rendered[form] if is_current else _Page.of((), form.gzip)
        tail = render(self.live(), form.format, self.created) + end_of(form.format)
        return page.with_tail(tail)
