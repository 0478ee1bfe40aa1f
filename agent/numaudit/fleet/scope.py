"""Selection of the series that a question is about, as text of PromQL selectors. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from numaudit.errors import InputError
from numaudit.exporters.catalogue.labels import LABELS
from numaudit.fleet import DEFAULT_NODE_LABEL
from numaudit.gojson.strconv import quote

TARGET = ("instance", "job")
"""Labels that Prometheus gives each target."""
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MATCHER = r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')\s*'
_MATCHERS = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*,?\s*")
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


class Scope(Struct, frozen=True):
    """The part of a Prometheus that is asked."""

    node_label: str = DEFAULT_NODE_LABEL
    """The label that names the Kubernetes node; where a series has none, its instance does."""
    selector: str = ""
    """More matchers for all series: `cluster="x"`."""
    namespace: str | None = None
    """Of the containers; None = all."""

    def __post_init__(self) -> None:
        """Raises InputError for what PromQL would not take."""
        if not _LABEL.fullmatch(self.node_label):
            raise InputError(f"--node-label: {self.node_label[:60]!r} is not a label name, such as nodename or node")
        if self.node_label in LABELS:
            raise InputError(
                f"--node-label: {self.node_label} is a label that the agents set "
                "themselves; it does not identify the node"
            )
        if self.selector.strip() and not _MATCHERS.fullmatch(self.selector):
            raise InputError(
                f"--selector: {self.selector[:100]!r} is not a list of label matchers; write it as in PromQL: "
                'cluster="east",region=~"eu-.*"'
            )

    @property
    def by(self) -> tuple[str, ...]:
        """The labels that tell agents apart."""
        return tuple(dict.fromkeys((self.node_label, *TARGET)))

    def of(self, names: str, *matchers: str) -> str:
        """A selector of numaudit's families, of all containers; `names` may be alternatives: `a|b`."""
        if "|" in names:
            return self.any(matched("__name__", names.split("|"), "numaudit_"), *matchers)
        return f"numaudit_{names}{self.any(*matchers)}"

    def of_containers(self, names: str, *matchers: str) -> str:
        """The same of the namespace that was asked for."""
        own = () if self.namespace is None else (f"namespace={quote(self.namespace)}",)
        return self.of(names, *own, *matchers)

    def any(self, *matchers: str) -> str:
        """A selector in braces."""
        parts = [*matchers, *filter(None, [self.selector.strip().rstrip(",").strip()])]
        return f"{{{', '.join(parts)}}}"


def labels(*names: str) -> str:
    """A list of labels, each once: `(a, b)`"""
    return f"({', '.join(dict.fromkeys(names))})"


def matched(label: str, values: Iterable[str], prefix: str = "") -> str:
    """A matcher for any of these values, whatever characters they have (regular expressions are RE2's)."""
    escaped = "|".join(_SPECIAL.sub(r"\\\g<0>", value) for value in sorted(set(values)))
    return f"{label}=~{quote(f'{prefix}({escaped})' if prefix else escaped)}"
