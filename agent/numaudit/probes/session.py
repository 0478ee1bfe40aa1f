"""The probes of one agent or one report: load, read, close."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from msgspec import Struct, field

from numaudit.errors import Unavailable
from numaudit.kernel import cgroup
from numaudit.kernel.host import Host
from numaudit.probes import reasons
from numaudit.probes.loading import loader
from numaudit.probes.loading.loader import Answer, LoadedProbe, ProbeRequest
from numaudit.probes.probe import Probe, ProbeKind, Reading
from numaudit.probes.reasons import ProbeRefusal, Reason

R = TypeVar("R", bound=Reading)
_SOME = 3
_ORDER = {
    Reason.NO_PERMISSION: 0,
    Reason.FORBIDDEN: 1,
    Reason.SECCOMP: 1,
    Reason.PARANOID: 1,
    Reason.TRACEFS_CLOSED: 1,
    Reason.CGROUP_V1: 2,
}
"""Rank of a reason; the most informative comes first."""
_NOT_FOR_BPF = (Reason.NO_PMU, Reason.COUNTS_NOTHING)
"""Reasons that do not concern BPF, so that a probe without BPF would fail as well."""
_NOT_ASKED_FOR = ProbeRefusal(Reason.SWITCHED_OFF, "it was not asked for")


class Session(Struct):
    """Each probe that was asked for, or why it does not run.

    Programs run until `close`, or until this process ends in any way.
    """

    probes: Mapping[str, Probe[Reading] | ProbeRefusal]
    """By name."""
    compiled: Mapping[str, str] = field(default_factory=dict)
    """Reason why the text of a probe was compiled on this host, of those whose bytecode was not stored."""

    @classmethod
    def open(
        cls,
        host: Host,
        kinds: Collection[ProbeKind[Any]],
        *,
        cgroups: int,
        nodes: int,
        deadline: float = loader.DEADLINE,
        pythons: Sequence[str | Path] | None = None,
    ) -> Self:
        """Load and attach these probes, each as far as this host lets it.

        The maps are sized for `cgroups` cgroups, each with `nodes` pairs of CPU's and page's node.
        Raises InputError when a BPF text is missing.
        """
        refusal = _refuse_all(host)
        if refusal is not None:
            return cls.refused(kinds, refusal)
        requests, answers = _request(host, kinds, cgroups, nodes)
        with_programs = [one for one in requests if one.programs]
        answers |= {one.name: LoadedProbe(one.name) for one in requests if not one.programs}
        answers |= loader.load(with_programs, deadline=deadline, pythons=pythons)
        compiled = {
            name: one.compiled for name, one in answers.items() if isinstance(one, LoadedProbe) and one.compiled
        }
        return cls({kind.name: _start(kind, host, answers[kind.name]) for kind in kinds}, compiled)

    @classmethod
    def refused(cls, kinds: Collection[ProbeKind[Any]], refusal: ProbeRefusal) -> Self:
        """A session in which no probe runs, for one reason."""
        return cls({kind.name: refusal for kind in kinds})

    def take_over(self, other: Session) -> None:
        """Have what another session opened, in the place of what has the same names here. This one closes it."""
        self.probes = {**self.probes, **other.probes}
        self.compiled = {**self.compiled, **other.compiled}

    def probe(self, kind: ProbeKind[R]) -> Probe[R] | ProbeRefusal:
        """The probe, or why it does not run."""
        return cast("Probe[R] | ProbeRefusal", self.probes.get(kind.name, _NOT_ASKED_FOR))

    def read(self, kind: ProbeKind[R]) -> R:
        """Raises ProbeRefusal when the probe does not run, OSError and ParseError when it cannot be read."""
        probe = self.probe(kind)
        if isinstance(probe, ProbeRefusal):
            raise ProbeRefusal(probe.reason, probe.text)
        if probe.is_paused:
            raise ProbeRefusal(
                Reason.OVER_BUDGET, "it is paused, because all probes together used more CPU time than their limit"
            )
        return probe.read()

    def running(self) -> dict[str, Probe[Reading]]:
        """By name, those that are paused included."""
        return {name: probe for name, probe in self.probes.items() if not isinstance(probe, ProbeRefusal)}

    def require_any(self) -> None:
        """Raises Unavailable, with the reasons, when no probe runs: rights come first, then the mode of the cgroups."""
        if self.running():
            return
        refusals = {one.reason: one for one in self.probes.values() if isinstance(one, ProbeRefusal)}
        reasons_given = [str(one) for one in sorted(refusals.values(), key=lambda one: _ORDER.get(one.reason, 3))]
        if os.geteuid() and Reason.NO_PERMISSION not in refusals and not reasons.is_capable():
            reasons_given.insert(0, f"user id {os.geteuid()} is not root; {Reason.NO_PERMISSION.hint}")
        raise Unavailable(f"nothing can be measured here: {'. '.join(reasons_given[:_SOME])}")

    def pause(self, kind: ProbeKind[Any], paused: bool) -> None:
        """Take a probe off its hooks, or put it back. One that does not run is left as it is.

        Raises ProbeRefusal when it cannot be put back.
        """
        probe = self.probe(kind)
        if not isinstance(probe, ProbeRefusal) and probe.is_paused != paused:
            if paused:
                probe.pause()
            else:
                probe.resume()

    def cgroups(self) -> set[int]:
        """Those for which some probe has counters now. Raises OSError."""
        return set().union(*(probe.cgroups() for probe in self.running().values()))

    def close(self) -> None:
        for probe in self.running().values():
            probe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ProbeReadings(Struct, frozen=True):
    """The readings of one tick: each probe is read when it is first asked for, and once."""

    session: Session
    taken: dict[str, Reading] = field(default_factory=dict)
    """By the probe's name, of those that were read."""

    def of(self, kind: ProbeKind[R]) -> R:
        """Raises ProbeRefusal when the probe does not run, OSError and ParseError when it cannot be read."""
        if kind.name not in self.taken:
            self.taken[kind.name] = self.session.read(kind)
        return cast("R", self.taken[kind.name])

    def forget(self, cgroups: Collection[int]) -> int:
        """Delete the counters of these cgroups, of every probe that was read in this tick; how many went.

        One that was not keeps them for the tick that reads it. Cgroup ids are not used again, so a counter once deleted
        never comes back as another's. Raises OSError.
        """
        if not cgroups:
            return 0
        running = self.session.running()
        return sum(running[name].forget(cgroups) for name in self.taken if name in running)


def _request(
    host: Host, kinds: Collection[ProbeKind[Any]], cgroups: int, nodes: int
) -> tuple[list[ProbeRequest], dict[str, Answer]]:
    """Requests for the loader, and the refusals of those that need not be tried."""
    requests: list[ProbeRequest] = []
    refused: dict[str, Answer] = {}
    for kind in kinds:
        try:
            requests.append(kind.request(host, cgroups, nodes))
        except ProbeRefusal as error:
            refused[kind.name] = error
    return requests, refused


def _refuse_all(host: Host) -> ProbeRefusal | None:
    if not host.is_live:
        return ProbeRefusal(Reason.NOT_LIVE, f"{host.root} is a captured tree")
    try:
        unified = cgroup.find_hierarchies(host).unified
    except Unavailable as error:
        return ProbeRefusal(Reason.NO_CGROUPS, f"there are no cgroups to keep apart: {error}")
    if unified is None:
        text = "cgroup version 2 is not mounted, and to BPF programs every task of version 1 is in the root cgroup"
        return ProbeRefusal(Reason.CGROUP_V1, text)
    return None


def _start(kind: ProbeKind[R], host: Host, answer: Answer) -> Probe[R] | ProbeRefusal:
    if isinstance(answer, ProbeRefusal):
        return _without_bpf(kind, host, answer)
    try:
        return _attempt(kind, lambda: kind.start(host, answer))
    except ProbeRefusal as refusal:
        answer.close()
        return _without_bpf(kind, host, refusal)


def _without_bpf(kind: ProbeKind[R], host: Host, refusal: ProbeRefusal) -> Probe[R] | ProbeRefusal:
    """The probe in its other form, if it has one; else why its programs do not run."""
    start = kind.without_bpf
    if start is None or refusal.reason in _NOT_FOR_BPF:
        return refusal
    try:
        return _attempt(kind, lambda: start(host))
    except ProbeRefusal as second:
        if second.reason is refusal.reason:
            return refusal
        return ProbeRefusal(second.reason, f"{refusal.text}; and without BPF: {second.text}")


def _attempt(kind: ProbeKind[R], start: Callable[[], Probe[R]]) -> Probe[R]:
    """Raises ProbeRefusal."""
    try:
        return start()
    except OSError as error:
        raise reasons.of_error(f"cannot start the probe {kind.name}", error) from error
