"""A report whose names are hidden, to be shown in public. Pure.

Each namespace, pod, container, id, cgroup, process and file gets a word made of it and a key: the same name has the
same word all over one report, and without the key, which is used once and kept nowhere, nobody finds it by trying.
Figures, nodes, verdicts and what we say ourselves stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2s
from typing import Any, TypeVar

from msgspec import Struct, structs

from numaudit.checkpoints.start.findings import StateFinding
from numaudit.errors import printable
from numaudit.evaluation.access import Access
from numaudit.evaluation.findings import Finding
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.ranks.judge import summary
from numaudit.evaluation.ranks.rank import Rank
from numaudit.evaluation.setup import SetupResult
from numaudit.evaluation.verdicts import Cause, Verdict
from numaudit.report.memory_manager import HolderReport
from numaudit.report.processes import ProcessesReport, ProcessReport, RanksReport
from numaudit.report.summary import summarize
from numaudit.report.values import (
    ContainerReport,
    PromiseOfSource,
    Report,
    Summary,
    Unknown,
)
from numaudit.snapshot import CollectorOutcome, ProcessMapping, SharedMemory
from numaudit.snapshot.processes import ContainerDevice, ThreadGroup, UnreadDevices, UnreadPart

Value = TypeVar("Value")
NAMES: Mapping[type, tuple[str, ...]] = {
    ContainerReport: ("namespace", "pod", "container", "pod_uid", "container_id"),
    ContainerDevice: ("interfaces",),
    Finding: ("namespace", "pod", "container", "pod_uid"),
    HintOutcome: ("namespace", "pod", "container", "pod_uid", "workload"),
    ProcessMapping: ("process",),
    ProcessReport: ("process",),
    Rank: ("process",),
    ThreadGroup: ("names",),
    HolderReport: ("namespace", "pod", "pod_uid"),
    PromiseOfSource: ("claim", "driver", "devices"),
}
"""Fields that are hidden whole."""
PATHS: Mapping[type, tuple[str, ...]] = {
    ContainerReport: ("path",),
    ProcessMapping: ("file",),
    SharedMemory: ("file",),
}
"""Fields of which every part is hidden that is not the same on all hosts."""
TEXTS: Mapping[type, tuple[str, ...]] = {
    Access: ("reason",),
    Cause: ("evidence",),
    StateFinding: ("message", "remedy", "where"),
    CollectorOutcome: ("reason",),
    Finding: ("message", "remedy"),
    HintOutcome: ("reason", "message"),
    SetupResult: ("messages", "accepted"),
    Summary: ("text",),
    ProcessesReport: ("unread", "ranks_summary"),
    RanksReport: ("unread", "ranks_summary"),
    Unknown: ("what", "reason"),
    UnreadDevices: ("reason",),
    UnreadPart: ("reason",),
    PromiseOfSource: ("problem",),
    Verdict: ("reason", "remedy", "commands"),
}
"""Fields in which the hidden names are searched for."""
_PARTS_OF_ALL_HOSTS = """
    dev zero shm kubepods kubepods.slice besteffort burstable kubepods-besteffort.slice kubepods-burstable.slice
    kubepods-system.slice kubepods-system-besteffort.slice kubepods-system-burstable.slice
    system.slice user.slice machine.slice init.scope system kubelet host
    etc lib log pods proc run sys tmp usr var
"""
_SAME_ON_ALL_HOSTS = frozenset(_PARTS_OF_ALL_HOSTS.split())
_OUR_WORDS = """
    access agent aligned allowed app container containers cpu cpus default drifted init kubelet main memory node nodes
    numa pod pods process promised proxy refused server shared sidecar spilled split static system unknown
    are and but can for has its not now off one only out own pid that the was with
"""
_PLAIN = frozenset(_OUR_WORDS.split())
"""Words of our sentences, which identify nobody. Beside a slash they are part of a name, and hidden."""
_SHORT = 2
"""Characters; likewise."""
_SHORT_ID = 12
_TOKEN = re.compile(r"[^\s/,;'\"`()\[\]{}<>=]+")
_PARTS = re.compile(r"([._:])")
_ID = re.compile(r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32,}", re.IGNORECASE)
"""UIDs and container ids, also of pods that the report does not have."""


def redact(report: Report, key: bytes, whole: Report, also: Iterable[str] = ()) -> Report:
    """The report without names.

    `whole` is that of the host, of which texts may name any container. `also`: other names that they may have, such as
    that of the host.
    """
    hide = _Hide(key, frozenset(_words(whole, also)) - _SAME_ON_ALL_HOSTS)
    hidden = _walk(_without_declarations(report), hide)
    said = summarize(hidden.containers, hidden.nodes, hidden.findings, len(hidden.rejections))
    return structs.replace(hidden, summary=said)


def _without_declarations(report: Report) -> Report:
    """Ranks with verdicts and causes alone, without what was declared for them and their devices; and devices without
    the names that plugins gave them.
    """
    containers = map(_without_plugins_names, map(_without_ranks_words, report.containers))
    return structs.replace(report, containers=tuple(containers))


def _without_plugins_names(one: ContainerReport) -> ContainerReport:
    if one.devices is None or not one.devices.promised:
        return one
    return structs.replace(one, devices=structs.replace(one.devices, promised={}))


def _without_ranks_words(one: ContainerReport) -> ContainerReport:
    if one.processes is not None and one.processes.ranks:
        ranks = tuple(map(_only_verdict, one.processes.ranks))
        processes = structs.replace(one.processes, ranks=ranks, ranks_summary=summary(ranks))
        one = structs.replace(one, processes=processes)
    if one.ranks is not None:
        ranks = tuple(map(_only_verdict, one.ranks.items))
        one = structs.replace(one, ranks=structs.replace(one.ranks, items=ranks, ranks_summary=summary(ranks)))
    return one


def _only_verdict(rank: Rank) -> Rank:
    problems = tuple(structs.replace(one, detail=one.cause) for one in rank.problems)
    detail = problems[0].cause if problems else rank.verdict
    return structs.replace(rank, declarations=(), devices=(), devices_elsewhere=(), problems=problems, detail=detail)


def hidden_name(name: str, key: bytes) -> str:
    """The word for a name."""
    digest = blake2s(name.encode("utf-8", "surrogatepass"), key=key, digest_size=5)
    return f"x-{digest.hexdigest()}"


class _Hide(Struct, frozen=True):
    """Hides what it knows."""

    key: bytes
    known: frozenset[str]

    def name(self, name: str) -> str:
        return hidden_name(name, self.key)

    def path(self, path: str) -> str:
        return "/".join(part if not part or part in _SAME_ON_ALL_HOSTS else self.name(part) for part in path.split("/"))

    def text(self, text: str) -> str:
        """Hide names, and the text after a hidden name and a slash, since a pod's name may be in no field."""
        below = -1

        def replaced(found: re.Match[str]) -> str:
            nonlocal below
            token, (start, end) = found[0], found.span()
            word = token.rstrip(".:!?")
            beside_slash = "/" in (text[start - 1 : start], text[end : end + 1])
            if start == below or self._is_hidden(word, beside_slash):
                below = end + 1 if text[end : end + 1] == "/" else -1
                return self.name(word) + token[len(word) :]
            return "".join(self.name(part) if self._is_hidden(part, False) else part for part in _PARTS.split(token))

        return _ID.sub(lambda found: self.name(found[0]), _TOKEN.sub(replaced, text))

    def _is_hidden(self, word: str, in_name: bool) -> bool:
        is_plain = len(word) <= _SHORT or word.casefold() in _PLAIN
        return word in self.known and (in_name or not is_plain)


def _words(report: Report, also: Iterable[str]) -> Iterator[str]:
    """Every word of a name that a text may have."""
    for name in (*_names(report), *also):
        yield name[:_SHORT_ID]
        for part in name.split("/"):
            yield part
            yield from _TOKEN.findall(part)
            yield from _TOKEN.findall(printable(part))


def _names(value: object) -> Iterator[str]:
    for fields in (NAMES, PATHS):
        for name in fields.get(type(value), ()):
            found = getattr(value, name)
            yield from found if isinstance(found, tuple) else filter(None, (found,))
    for _, inner in _inner(value):
        yield from _names(inner)


def _inner(value: object) -> Iterable[tuple[str | None, Any]]:
    """Field or None, and the values in a value that may have names."""
    if isinstance(value, tuple):
        return ((None, one) for one in value)
    if isinstance(value, Struct):
        return ((name, getattr(value, name)) for name in value.__struct_fields__)
    return ()


def _walk(value: Value, hide: _Hide) -> Value:
    """The value with all that is in it hidden."""
    if isinstance(value, tuple):
        return tuple(_walk(one, hide) for one in value)  # type: ignore[return-value]
    changed = {name: _walk(inner, hide) for name, inner in _inner(value) if name is not None}
    if not changed:
        return value
    ways: tuple[tuple[Mapping[type, tuple[str, ...]], Callable[[str], str]], ...] = (
        (NAMES, hide.name),
        (PATHS, hide.path),
        (TEXTS, hide.text),
    )
    for fields, way in ways:
        for name in fields.get(type(value), ()):
            found = changed[name]
            if found is not None:
                changed[name] = tuple(map(way, found)) if isinstance(found, tuple) else way(found)
    return structs.replace(value, **changed)  # type: ignore[type-var]
