"""Several variants of one YAML tree, written as one Go template: what differs stands below a condition.

A variant is the set of switches that are on. The variants given are the smallest ones in which something differs:
none, each switch alone, and those pairs that bring more than both alone. What two switches change independently of
each other needs no pair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import yaml

Switches = frozenset[str]
Variants = Mapping[Switches, Any]
Path = tuple[str, ...]
"""Keys from an object's top; an element of a list by what names it, or "*"."""

_NAMED_BY = ("mountPath", "name", "port")
"""The first of these that an element of a list has tells it from the others."""


class Writer:
    """Writes variants as the lines of a template.

    `slots` has, by path, the Go expression that takes a value's place; `endings` the lines that end a map or a
    list, without their indentation; `strings` pairs of a text and of the action that replaces it in every string.
    """

    def __init__(
        self,
        condition: Callable[[str], str],
        slots: Mapping[Path, str],
        endings: Mapping[Path, Sequence[str]],
        strings: Sequence[tuple[str, str]],
    ) -> None:
        self._condition = condition
        self._slots = slots
        self._endings = endings
        self._strings = strings
        self.used: set[Path] = set()
        """The slots and endings that were written."""

    def document(self, all_: Iterable[Switches], variants: Variants, path: Path) -> list[str]:
        """The lines of one object, below the condition under which it exists among all variants."""
        return [*_below_conditions([(self._presence(all_, variants), self._map(variants, path, 0))])]

    def _map(self, variants: Variants, path: Path, depth: int) -> Iterator[str]:
        keys = dict.fromkeys(key for tree in variants.values() for key in tree)
        parts = []
        for key in dict.fromkeys([*(key for key in _NAMED_BY if key in keys), *keys]):
            has = {on: tree[key] for on, tree in variants.items() if key in tree}
            parts.append((self._presence(variants, has), self._entry(f"{key}:", has, (*path, key), depth)))
        yield from _below_conditions(parts)
        yield from self._ending(path, depth)

    def _list(self, variants: Variants, path: Path, depth: int) -> Iterator[str]:
        named = {on: _by_name(elements) for on, elements in variants.items()}
        parts = []
        for name in dict.fromkeys(name for elements in named.values() for name in elements):
            has = {on: elements[name] for on, elements in named.items() if name in elements}
            step = "*" if name.startswith("{") else name
            parts.append((self._presence(variants, has), self._entry("-", has, (*path, step), depth)))
        yield from _below_conditions(parts)
        yield from self._ending(path, depth)

    def _ending(self, path: Path, depth: int) -> Iterator[str]:
        if path in self._endings:
            self.used.add(path)
            yield from (_indent(depth) + line for line in self._endings[path])

    def _entry(self, head: str, variants: Variants, path: Path, depth: int) -> Iterator[str]:
        indent = _indent(depth)
        values = list(variants.values())
        if path in self._slots:
            self.used.add(path)
            yield f"{indent}{head} {self._slots[path]}"
        elif all(isinstance(value, dict) and value for value in values):
            inner = self._map(variants, path, depth + 1)
            yield from _inline(indent, inner, depth) if head == "-" else (f"{indent}{head}", *inner)
        elif all(isinstance(value, list) and value for value in values):
            yield from (f"{indent}{head}", *self._list(variants, path, depth + 1))
        else:
            yield from self._choice(head, variants, indent)

    def _choice(self, head: str, variants: Variants, indent: str) -> Iterator[str]:
        least = sorted_(_minimal(set(variants)))[0]
        other = {on for on, value in variants.items() if value != variants[least]}
        conditions = [(self._all(on - least), on) for on in sorted_(_minimal(other))]
        for number, (condition, on) in enumerate(conditions):
            yield f"{{{{- {'else ' if number else ''}if {condition} }}}}"
            yield from self._scalar(head, variants[on], indent)
        if conditions:
            yield "{{- else }}"
        yield from self._scalar(head, variants[least], indent)
        if conditions:
            yield "{{- end }}"

    def _scalar(self, head: str, value: object, indent: str) -> list[str]:
        if not isinstance(value, str):
            return [f"{indent}{head} {json.dumps(value)}"]
        text = value.replace("{{", "{{`{{`}}")
        for plain, action in self._strings:
            text = text.replace(plain, action)
        if "\n" not in value:
            quoted = yaml.safe_dump(text, width=1_000_000, default_style="'" if text != value else None)
            return [f"{indent}{head} {quoted.removesuffix(chr(10)).removesuffix('...').rstrip()}"]
        chomp = "|" if value.endswith("\n") else "|-"
        return [f"{indent}{head} {chomp}", *(f"{indent}  {line}".rstrip() for line in text.splitlines())]

    def _presence(self, all_: Iterable[Switches], has: Iterable[Switches]) -> str | None:
        """The condition that tells the variants that have something from all, None if every one of them has it."""
        all_, has = set(all_), set(has)
        if has == all_:
            return None
        several = len(_minimal(all_)) > 1
        least = frozenset[str]() if several else next(iter(_minimal(all_)))
        if least in has:
            return f"not {_any([self._all(on - least) for on in sorted_(_minimal(all_ - has))], nested=True)}"
        return _any([self._all(on - least) for on in sorted_(_minimal(has))])

    def _all(self, switches: Switches) -> str:
        names = [self._condition(name) for name in sorted(switches)]
        return names[0] if len(names) == 1 else f"and {' '.join(names)}"


def _any(conditions: Sequence[str], *, nested: bool = False) -> str:
    if len(conditions) == 1:
        text = conditions[0]
    else:
        text = "or " + " ".join(f"({one})" if " " in one else one for one in conditions)
    return f"({text})" if nested and " " in text else text


def _minimal(sets: set[Switches]) -> set[Switches]:
    """Those of them that contain no other."""
    return {one for one in sets if not any(other < one for other in sets)}


def sorted_(sets: set[Switches]) -> list[Switches]:
    """Sets of switches in an order that does not change."""
    return sorted(sets, key=sorted)


def _by_name(elements: Sequence[Any]) -> dict[str, Any]:
    """Name -> element: what tells all elements apart, or each element's JSON."""
    for key in _NAMED_BY:
        if all(isinstance(one, dict) and key in one for one in elements):
            named = {str(one[key]): one for one in elements}
            if len(named) == len(elements):
                return named
    return {json.dumps(one, sort_keys=True): one for one in elements}


def _below_conditions(parts: Iterable[tuple[str | None, Iterator[str]]]) -> Iterator[str]:
    """The lines of all parts; neighbours share a condition."""
    for condition, together in groupby(parts, key=itemgetter(0)):
        if condition is not None:
            yield f"{{{{- if {condition} }}}}"
        for _, lines in together:
            yield from lines
        if condition is not None:
            yield "{{- end }}"


def _inline(indent: str, lines: Iterator[str], depth: int) -> Iterator[str]:
    """A list's element: its first line stands behind the dash."""
    first = next(lines)
    if first.startswith("{{"):
        raise ValueError(f"the first key of a list's element depends on a switch: {first}")
    yield f"{indent}- {first[len(_indent(depth + 1)) :]}"
    yield from lines


def _indent(depth: int) -> str:
    return "  " * depth
