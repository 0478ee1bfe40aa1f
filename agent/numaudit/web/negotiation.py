"""The form of the metrics that a request's headers ask for, as Prometheus' own client libraries choose it."""

from __future__ import annotations

from numaudit.exporters.prometheus import ScrapeForm

_OPENMETRICS, _TEXT = "application/openmetrics-text", "text/plain"
_ESCAPINGS = ("allow-utf-8", "underscores", "dots", "values")
"""No name of ours needs escaping, so the one that is asked for is the one that is given."""


def negotiate(accept: str, accept_encoding: str) -> tuple[ScrapeForm, str]:
    """The form for a request's headers, and its Content-Type: of what the scraper names first, the first we know."""
    is_packed = accepts_gzip(accept_encoding)
    for accepted in accept.split(","):
        kind, *parameters = [part.strip() for part in accepted.split(";")]
        version, escaping = _value("version", parameters), _value("escaping", parameters)
        if kind == _OPENMETRICS and not version:
            return ScrapeForm("openmetrics", is_packed), f"{_OPENMETRICS}; version=1.0.0; charset=utf-8"
        if kind in (_OPENMETRICS, _TEXT) and _is_one_or_more(version):
            content_type = f"{kind}; version=1.0.0; charset=utf-8; escaping={_known(escaping)}"
            return ScrapeForm("openmetrics" if kind == _OPENMETRICS else "text", is_packed), content_type
    return ScrapeForm("text", is_packed), f"{_TEXT}; version=0.0.4; charset=utf-8"


def accepts_gzip(accept_encoding: str) -> bool:
    """Return True when the header's sender takes gzip."""
    for part in accept_encoding.lower().split(","):
        coding, _, weight = part.strip().partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _value(name: str, parameters: list[str]) -> str:
    """Of the first parameter of this name; empty = there is none."""
    return next((one.removeprefix(f"{name}=") for one in parameters if one.startswith(f"{name}=")), "")


def _is_one_or_more(version: str) -> bool:
    major = version.partition(".")[0]
    return major.isascii() and major.isdigit() and major.strip("0") != ""


def _known(escaping: str) -> str:
    return escaping if escaping in _ESCAPINGS else "underscores"
