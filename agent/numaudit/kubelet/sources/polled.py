"""One source that is polled: its newest value and state, the deadlines of its answers, and work that is done again only
when what it said has changed; and the machine, which the kubelet compares with its checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Generic, Literal, ParamSpec, TypeVar

import msgspec
from msgspec import Struct

from numaudit.errors import ParseError, Unavailable, to_keep
from numaudit.intent.kubelet import SourceName, SourceState
from numaudit.kernel.host import Host, explain
from numaudit.kernel.memory.node_cpus import online_cpus, online_nodes
from numaudit.kernel.node import read_counters, read_machine
from numaudit.topology.machine import Machine


class NoTimeLeft(Unavailable):
    """The answers before this one took all the time that a tick has for the kubelet. The next tick asks again."""


def time_left(deadline: float, until: float) -> float:
    """Seconds for one answer: `deadline`, but none after `until` by the monotonic clock. Raises NoTimeLeft."""
    seconds = min(deadline, until - monotonic())
    if seconds <= 0:
        raise NoTimeLeft("not asked, because the kubelet's other answers used up the time for this tick")
    return seconds


RETRY_AFTER = 30.0
"""Seconds before a source that did not answer is asked again."""

Value = TypeVar("Value")


@dataclass(slots=True)
class Polled(Generic[Value]):
    """Keeps the last good value when a later call fails, and does not ask a silent source all the time."""

    name: SourceName
    every: float = 0.0
    """Seconds before it is asked again; 0 = each time."""
    reasons_are_gaps: bool = False
    """A reason beside its value says what of it was not understood."""
    value: Value | None = None
    error: Exception | None = None
    """Of the newest call; None = it gave a value, or there was none yet."""
    state: SourceState = field(init=False)
    _not_before: float = 0.0

    def __post_init__(self) -> None:
        self.state = SourceState(self.name, "missing", "not asked yet")

    @property
    def is_current(self) -> bool:
        return self.state.state in {"ok", "partial"}

    def ask(self, fetch: Callable[[], tuple[Value, str | None]]) -> None:
        """Ask, unless it is too early; `fetch` gives the value and what of it is missing."""
        clock = monotonic()
        if clock < self._not_before:
            return
        try:
            self.value, reason = fetch()
            self.error = None
            is_partial = reason is not None and self.reasons_are_gaps
            self.state = SourceState(self.name, "partial" if is_partial else "ok", reason, time())
            self._not_before = clock + self.every
        except (Unavailable, ParseError, OSError) as error:
            self.error = to_keep(error)
            state: Literal["missing", "old"] = "missing" if self.value is None else "old"
            self.state = SourceState(self.name, state, explain(error), self.state.read_at)
            if not isinstance(error, NoTimeLeft):
                self._not_before = clock + RETRY_AFTER

    def expire(self, now: float, max_age: float) -> None:
        """Forget a value that was read longer ago (in seconds; `now` since the epoch) than the source may be silent."""
        read_at = self.state.read_at
        if self.state.state == "old" and read_at is not None and now - read_at > max_age:
            self.value = None
            self.state = SourceState(self.name, "missing", f"{self.state.reason}; its last values are too old", read_at)

    def again(self) -> None:
        """The source itself is another one: ask at the next opportunity."""
        self._not_before = 0.0

    def hurry(self) -> None:
        """The answer may have changed: do not wait longer, unless for a source that does not answer."""
        if self.is_current:
            self._not_before = 0.0


P = ParamSpec("P")
R = TypeVar("R")


class Inputs(Struct):
    """The inputs of the last call. They are values, never changed in place."""

    _last: tuple[object, ...] | None = None

    def changed(self, *inputs: object) -> bool:
        """Does one of them differ from the last time? The same object is not even compared. True at the first time."""
        before, self._last = self._last, inputs
        return before != inputs


class Memo(Generic[P, R]):
    """A pure function that keeps its last result and gives it again for the same inputs."""

    __slots__ = ("_function", "_inputs", "_result")

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function
        self._inputs = Inputs()
        self._result: tuple[R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._inputs.changed(args, kwargs):
            self._result = None
        if self._result is None:
            self._result = (self._function(*args, **kwargs),)
        return self._result[0]


MACHINE_EVERY = 60.0
"""Seconds between two readings of the machine's totals: huge pages, memory and CPUs may come and go while it runs."""


class MachineWatch(Struct):
    """Follows one host's machine."""

    host: Host
    problem: str | None = None
    """Reason why the machine cannot be read whole; None = it can."""
    _machine: Machine | None = None
    _totals: Inputs = msgspec.field(default_factory=Inputs)
    _not_before: float = 0.0

    def machine(self) -> Machine | None:
        """None = it cannot be read whole, so there is nothing to compare with."""
        clock = monotonic()
        if clock >= self._not_before:
            self._not_before = clock + MACHINE_EVERY
            if self._totals.changed(*_totals(self.host)):
                self._machine, self.problem = None, None
                try:
                    self._machine = read_whole_machine(self.host)
                except Unavailable as reason:
                    self.problem = str(reason)
        return self._machine


def read_whole_machine(host: Host) -> Machine:
    """The machine as it is now. Raises Unavailable when it, or memory or CPUs of one of its nodes, cannot be read."""
    machine = read_machine(host)
    unknown = [node.id for node in machine.nodes if node.memory is None]
    if unknown:
        raise Unavailable(
            f"cannot read MemTotal of nodes {unknown} in {host.nodes}, so nothing can be compared with it"
        )
    if machine.cpu_problem is not None:
        raise Unavailable(f"{machine.cpu_problem}, so nothing can be compared with this machine")
    return machine


def _totals(host: Host) -> tuple[object, ...]:
    """All that the kubelet compares, in far fewer files than the whole machine."""
    nodes = [
        (one.node, (one.meminfo or {}).get("MemTotal"), [(page.page_size, page.total) for page in one.huge_pages])
        for one in read_counters(host, online_nodes(host))
    ]
    return nodes, online_cpus(host)
