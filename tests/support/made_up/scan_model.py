"""A model of the kernel's NUMA scan through the memory of one process: which faults come, and which pages were used.

Source: kernel/sched/fair.c (task_numa_work, vma_is_accessed), mm/memory.c (do_numa_page). A scan marks some of the
pages in each step. A marked page faults at its next use and loses its mark. A pass that has come to the end is counted
as done at once; until the next step what faults belongs to it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from numaudit.counted import HintFault
from numaudit.probes.hint_faults import PassUse, ScanPass

PAGE = 4096
LOCAL = 8


@dataclass
class Page:
    node: int
    is_marked: bool = False


@dataclass
class Process:
    """One process with memory on two nodes, whose threads run on any of them."""

    random: Random
    pid: int = 100
    image: int = 3
    says_left_out: bool = True
    pages: dict[int, Page] = field(default_factory=dict)
    pass_: int = 0
    position: int = 0
    """How many of its pages the scan has passed; 0 = the pass before is through."""
    faults: dict[ScanPass, Counter[HintFault]] = field(default_factory=dict)
    left_out: Counter[ScanPass] = field(default_factory=Counter)
    used_remotely: dict[ScanPass, set[int]] = field(default_factory=dict)
    """The truth: pages that were used from another node while a pass was the one that faults belong to."""
    _next: int = 0

    @property
    def current(self) -> ScanPass:
        return ScanPass(self.pid, self.image, self.pass_ if self.position else self.pass_ - 1)

    def map(self, count: int, node: int) -> None:
        for _ in range(count):
            self.pages[self._next] = Page(node)
            self._next += 1

    def unmap(self, share: float) -> None:
        for one in [one for one in self.pages if self.random.random() < share]:
            del self.pages[one]

    def move(self, share: float, node: int) -> None:
        """Somebody else moves memory, which takes its marks away."""
        for page in self.pages.values():
            if self.random.random() < share:
                page.node, page.is_marked = node, False

    def scan(self, share: float, skip: bool) -> None:
        """The scan goes on through so much of the memory, or leaves it out."""
        order = sorted(self.pages)
        end = min(len(order), self.position + max(1, round(share * len(order))))
        number = ScanPass(self.pid, self.image, self.pass_)
        for one in order[self.position : end]:
            if skip:
                self.left_out[number] += PAGE
            else:
                self.pages[one].is_marked = True
        self.position = end
        if self.position >= len(order):
            self.pass_, self.position = self.pass_ + 1, 0

    def use(self, cpu_node: int, share: float) -> None:
        for one, page in self.pages.items():
            if self.random.random() >= share:
                continue
            if page.node != cpu_node:
                self.used_remotely.setdefault(self.current, set()).add(one)
            if page.is_marked:
                kind = HintFault(cpu_node, page.node, LOCAL if page.node == cpu_node else 0)
                self.faults.setdefault(self.current, Counter())[kind] += 1
                page.is_marked = False

    def execute(self) -> None:
        self.image += 1
        self.pages.clear()
        self.pass_ = self.position = 0

    def reading(self) -> dict[ScanPass, PassUse]:
        """The two newest passes, as the probe's map has them."""
        passes = sorted({*self.faults, *self.left_out})[-2:]
        return {
            one: PassUse(dict(self.faults.get(one, {})), self.left_out[one] if self.says_left_out else None)
            for one in passes
        }

    def on(self, node: int) -> int:
        return PAGE * sum(page.node == node for page in self.pages.values())
