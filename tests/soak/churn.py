"""Containers that come and go on a made-up host, each of known size, while the agent is scraped.

Every container holds a number of bytes of its own, so that a figure shown under a wrong name is noticed. Every tenth
pod is a restart: the same names, another container, other bytes.

A container is owed to the scraper when two ticks began and ended within its life. When ticks end is asked of the
agent many times a second, so that a machine too slow for the interval excuses only what the agent never read.
"""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate

from hosts.node_tree import NodeTree, Pod
from processes.agent_process import Agent

PAGE = 4096
OTHER_JUDGED = 3 * PAGE
"""Shared memory that NodeTree gives every container beside its anon bytes."""

Name = tuple[str, str]
"""Pod and container."""


@dataclass(slots=True)
class _Living:
    pod: Pod
    path: str
    name: Name
    judged: int
    born: float
    ends: float


@dataclass(slots=True)
class Churn:
    """`rate` containers begin each second and live for `life` seconds."""

    tree: NodeTree
    rate: float
    life: float
    interval: float
    """The agent's."""
    started: int = 0
    seen: dict[Name, set[int]] = field(default_factory=dict)
    """What scrapes showed."""
    held: dict[Name, set[int]] = field(default_factory=dict)
    """What each name held in any of its lives."""
    ended: list[tuple[Name, int, float, float]] = field(default_factory=list)
    """Name, bytes, and when it was born and killed."""
    ticks: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Number of a tick -> when it ended, at the earliest and at the latest. Some are too quick to be noticed."""
    scrapes: int = 0
    late_answers: int = 0
    """Those that took longer than a client or the agent waits for the other: on a machine that has other work."""
    _alive: deque[_Living] = field(default_factory=deque)
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self, agent: Agent, scrape_every: float) -> Iterator[None]:
        """Churn and scrape until the block ends; what lives then is killed."""
        threads = [
            threading.Thread(target=self._churn),
            threading.Thread(target=self._scrape, args=(agent, scrape_every)),
            threading.Thread(target=self._watch_ticks, args=(agent,)),
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
            self._scrape_once(agent)  # for those that ended after the last one
            for one in self._alive:
                self._end(one)

    def misattributed(self) -> dict[Name, set[int]]:
        """Names under which a scrape showed bytes that they never held."""
        wrong = {name: shown - self.held.get(name, set()) for name, shown in self.seen.items()}
        return {name: sizes for name, sizes in wrong.items() if sizes}

    def owed(self) -> set[tuple[Name, int]]:
        """Name and bytes of those that lived two ticks, so that some scrape must have shown them.

        A tick begins after the one before has ended.
        """
        numbers = list(self.ticks)
        earliest = list(accumulate((self.ticks[number][0] for number in numbers), max))
        latest = list(accumulate((self.ticks[number][1] for number in reversed(numbers)), min))[::-1]
        found = set()
        for name, size, born, killed in self.ended:
            first, last = bisect_left(earliest, born), bisect_right(latest, killed) - 1
            if first < last and numbers[last] - numbers[first] >= 2:
                found.add((name, size))
        return found

    def lived_long(self) -> int:
        """How many lived for three intervals, so that two ticks should have begun and ended meanwhile."""
        return sum(killed - born >= 3 * self.interval for _, _, born, killed in self.ended)

    def unseen(self) -> set[tuple[Name, int]]:
        """Those that are owed and were in no scrape."""
        return {(name, size) for name, size in self.owed() if size not in self.seen.get(name, set())}

    def _churn(self) -> None:
        begun = time.monotonic()
        while not self._stop.wait(0.005):
            now = time.monotonic()
            while self._alive and self._alive[0].ends <= now:
                self._end(self._alive.popleft())
            while self.started < (now - begun) * self.rate:
                self._begin(now)

    def _begin(self, now: float) -> None:
        number = self.started
        self.started += 1
        again = number % 10 == 9
        pod = self._alive[-1].pod if again and self._alive else self.tree.pod("churn", f"pod-{number}")
        incarnation = number
        anon = (number + 1) * PAGE
        path = self.tree.container(pod, "main", incarnation, (anon, 0))
        born = time.monotonic()
        if again and len(self._alive) > 0 and self._alive[-1].pod is pod:
            self._end_container(self._alive.pop())
        name = (pod.name, "main")
        self.held.setdefault(name, set()).add(anon + OTHER_JUDGED)
        self._alive.append(_Living(pod, path, name, anon + OTHER_JUDGED, born, now + self.life))

    def _end(self, one: _Living) -> None:
        self._end_container(one)
        self.tree.remove(one.pod)

    def _end_container(self, one: _Living) -> None:
        self.ended.append((one.name, one.judged, one.born, time.monotonic()))
        self.tree.kill(one.path)

    def _scrape(self, agent: Agent, every: float) -> None:
        while not self._stop.wait(every):
            self._scrape_once(agent)

    def _scrape_once(self, agent: Agent) -> None:
        try:
            text = agent.get("/metrics")[1]
        except OSError:
            self.late_answers += 1
            return
        # The client library's parser would take seconds for this.
        for pod, value in _JUDGED.findall(text):
            self.seen.setdefault((pod, "main"), set()).add(int(value))
        self.scrapes += 1

    def _watch_ticks(self, agent: Agent) -> None:
        while not self._stop.wait(0.02):
            asked = time.monotonic()
            try:
                answer = _TICKS.match(agent.get("/-/healthy")[1])
            except OSError:
                self.late_answers += 1
                continue
            answered = time.monotonic()
            if answer is not None:
                number, age = int(answer[1]), float(answer[2])
                before, after = self.ticks.get(number, (0.0, answered))
                self.ticks[number] = max(before, asked - age - _ROUNDING), min(after, answered - age + _ROUNDING)


_TICKS = re.compile(r"ok: (\d+) ticks, the newest ended (\d+\.\d+) s ago")
_ROUNDING = 0.005
_JUDGED = re.compile(
    r'^numaudit_container_judged_bytes{namespace="churn",pod="([^"]+)",container="main"} (\d+)$', re.MULTILINE
)
