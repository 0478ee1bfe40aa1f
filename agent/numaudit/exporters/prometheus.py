"""Prometheus' text format and OpenMetrics 1.0, rendered once per tick and served as bytes.

Escaping, content types and the choice of format are prometheus-client's; its own renderer would take
several times as long (tests/bench/bench_render.py), since it formats every label of every sample again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

from numaudit.exporters.blocks import SeriesBlock
from numaudit.exporters.exposition import Exposition, MetricFamily
from numaudit.exporters.metric import IDENTITY, Metric
from numaudit.exporters.packed import Packed, Packer
from numaudit.exporters.series import Key, Labels

Format = Literal["text", "openmetrics"]

_SCRAPES = 64
REMEMBERED_FOR = 300.0
"""Seconds that a form is rendered ahead of scrapes after the last one asked for it."""


class Form(NamedTuple):
    """Format that a scraper asks for."""

    format: Format
    gzip: bool


def negotiate(accept: str, accept_encoding: str) -> tuple[Form, str]:
    """The form for a request's headers, and its Content-Type."""
    _, content_type = choose_encoder(accept)
    format_: Format = "openmetrics" if content_type.startswith("application/openmetrics-text") else "text"
    return Form(format_, accepts_gzip(accept_encoding)), content_type


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
    return b"".join(_texts(exposition, format_, created, before))


def _texts(exposition: Exposition, format_: Format, created: bool, before: Rendered | None) -> list[bytes]:
    """That of each family."""
    known = {} if before is None else before.copy()
    now: Rendered = {} if before is None else before
    now.clear()
    for family in exposition.families:
        name = family.metric.full_name
        counts = created and format_ == "openmetrics" and family.metric.is_counter
        now[name] = _render_family(family, format_, _Since.of(exposition, family.metric, counts), known.get(name))
    return [one.text for one in now.values()]


def end_of(format_: Format) -> bytes:
    """Bytes that must come last."""
    return b"# EOF\n" if format_ == "openmetrics" else b""


class _Template(NamedTuple):
    """The lines of a block, with a gap for each number. Nothing else of them changes from tick to tick."""

    labels: tuple[Labels, ...]
    created: float | None
    lines: str


class _Since(NamedTuple):
    """Since when the counters of a family count, where that is to be shown."""

    container: Mapping[Key, float] = {}
    others: float | None = None

    @classmethod
    def of(cls, exposition: Exposition, metric: Metric[Any], is_shown: bool) -> _Since:
        if not is_shown:
            return cls()
        is_container = metric.since == "container"
        return cls(exposition.created if is_container else {}, exposition.created_at(metric, None))

    def at(self, key: Key | None) -> float | None:
        return self.others if key is None else self.container.get(key, self.others)


class _RenderedFamily(NamedTuple):
    """Parts that the next rendering can use again."""

    blocks: Sequence[SeriesBlock]
    text: bytes
    templates: Mapping[Key | None, _Template]
    since: _Since


Rendered = dict[str, _RenderedFamily]
"""By name of the family."""


def _render_family(
    family: MetricFamily, format_: Format, since: _Since, before: _RenderedFamily | None
) -> _RenderedFamily:
    # Facts and verdicts hardly ever change from tick to tick.
    if before is not None and before.blocks == family.blocks and before.since == since:
        return before
    known: Mapping[Key | None, _Template] = {} if before is None else before.templates
    templates: dict[Key | None, _Template] = {}
    has_fractions = family.metric.unit in ("seconds", "ratio")
    texts = [_head(family, format_)]
    for key, labels, numbers in family.blocks:
        created = since.at(key)
        template = known.get(key)
        if template is None or template.labels != labels or template.created != created:
            template = _Template(labels, created, _lines(family.metric, key, labels, created))
        templates[key] = template
        texts.append(template.lines % (tuple(map(floatToGoString, numbers)) if has_fractions else numbers))
    # Names are printable already where they are read; one that is not must not cost the others their values.
    return _RenderedFamily(family.blocks, "".join(texts).encode("utf-8", "backslashreplace"), templates, since)


def _lines(metric: Metric[Any], key: Key | None, labels: Sequence[Labels], created: float | None) -> str:
    identity = "" if key is None else _labels_text(IDENTITY, key)
    end = "" if created is None else f" {floatToGoString(created)}\n"
    lines = []
    for values in labels:
        own = _own_labels_text(metric.labels, values)
        inside = f"{identity},{own}" if identity and own else identity or own
        braces = f"{{{inside}}}" if inside else ""
        lines.append(f"{metric.full_name}{braces} %s\n")
        if end:
            lines.append(f"{metric.family}_created{braces}{end}")
    return "".join(lines)


def _head(family: MetricFamily, format_: Format) -> str:
    metric = family.metric
    kind = "counter" if metric.is_counter else "gauge"
    if format_ == "text":
        return f"# HELP {metric.full_name} {metric.help}\n# TYPE {metric.full_name} {kind}\n"
    unit = f"# UNIT {metric.family} {metric.unit}\n" if metric.unit else ""
    return f"# HELP {metric.family} {metric.help}\n# TYPE {metric.family} {kind}\n{unit}"


def _labels_text(names: tuple[str, ...], values: Labels) -> str:
    """Of a template, so a percent sign is doubled."""
    text = ",".join([f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True)])
    return text.replace("%", "%%")


# Few differ. Those of containers do, and would only make the agent grow.
_own_labels_text = lru_cache(maxsize=512)(_labels_text)


def _escape(value: str) -> str:
    if "\\" in value or "\n" in value or '"' in value:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value


class _Page(NamedTuple):
    """One tick in one form. What changes between ticks comes after it."""

    plain: bytes
    packed: Packed | None

    @classmethod
    def of(cls, texts: Sequence[bytes], gzip: bool, packer: Packer | None = None) -> _Page:
        if not gzip:
            return cls(b"".join(texts), None)
        return cls(b"", (packer or Packer()).pack(texts))

    def with_tail(self, tail: bytes) -> tuple[bytes, bytes]:
        """Two parts, so that answers share the first, which is large."""
        return (self.plain, tail) if self.packed is None else (self.packed.stream, self.packed.end(tail))


@dataclass(slots=True)
class MetricPages:
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
    _rendered: dict[Form, _Page] = field(default_factory=dict)
    _asked: dict[Form, float] = field(default_factory=dict)
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
            name: _texts(exposition, name, self.created, self._before.setdefault(name, {}))
            for name in dict.fromkeys(form.format for form in forms)
        }
        rendered = {
            form: _Page.of(texts[form.format], form.gzip, self._packers.setdefault(form.format, Packer()))
            for form in forms
        }
        with self._lock:
            self._exposition, self._rendered = exposition, rendered

    def get(self, form: Form) -> bytes | None:
        """The body of one answer; None before the first tick."""
        parts = self.parts(form)
        return None if parts is None else b"".join(parts)

    def parts(self, form: Form) -> tuple[bytes, bytes] | None:
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
