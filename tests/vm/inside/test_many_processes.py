"""Pages that hundreds of processes of one container use from another node. The probe's map is bounded:
pages without room in it are reported as lost, never as used from their own node or not at all.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from numaudit.engine.observer import Observer
from numaudit.evaluation.alignment import judge
from numaudit.kernel.host import Host
from numaudit.probes.hint_faults import HINT_FAULTS
from numaudit.probes.session import ProbeReadings, Session
from numaudit.snapshot import CollectorOutcome, ContainerId
from samples import scans_every
from workload import Cgroup, cgroup, eventually

pytestmark = pytest.mark.one_kernel
PROCESSES = 200
SIZE = 128 << 10
TRUTH = PROCESSES * SIZE
SLACK = PROCESSES * 16 << 10
"""Pages of Python that a process used from elsewhere before it was where it works."""
FEW = 64
"""Entries of a map that is too small by far."""


class Watch:
    """A probe of its own, and who asks it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._observer = Observer.of(Host())

    def ask(self, group: Cgroup) -> tuple[int, set[int], CollectorOutcome]:
        """Bytes that the container is said to use remotely, by passes of which processes, and how sure that is."""
        readings = ProbeReadings(self.session)
        snapshot = self._observer.observe(readings=readings)
        (outcome,) = [one for one in snapshot.outcomes if one.source == "hint_faults"]
        access = next(one for one in judge(snapshot).accesses[ContainerId(group.id)] if one.source == "hint_faults")
        assert access.used_remotely is not None, access.reason
        passes = readings.of(HINT_FAULTS).passes
        assert passes is not None
        return access.used_remotely.at_least_bytes, {one.process for one in passes.by_cgroup.get(group.id, {})}, outcome


@contextlib.contextmanager
def at_work(group: Cgroup) -> Iterator[None]:
    program = [sys.executable, "-S", str(Path(__file__).with_name("many_processes.py")), str(PROCESSES), str(SIZE)]
    joining = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group.path / "cgroup.procs")]
    with subprocess.Popen([*joining, *program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            group.write("cgroup.kill", "1")


def test_hundreds_of_processes_are_answered_and_what_a_full_map_lost_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(scans_every(20))
        group = stack.enter_context(cgroup("numaudit-lab/many"))
        enough = Watch(stack.enter_context(Session.open(Host(), [HINT_FAULTS], cgroups=100, nodes=16)))
        monkeypatch.setattr("numaudit.probes.hint_faults._PASSES", FEW)
        small = Watch(stack.enter_context(Session.open(Host(), [HINT_FAULTS], cgroups=100, nodes=16)))
        stack.enter_context(at_work(group))
        most, at_once, by_turns = 0, 0, set[int]()

        def are_answered() -> None:
            nonlocal most, at_once
            used, processes, outcome = enough.ask(group)
            of_some, some, partial = small.ask(group)
            most = max(most, used, of_some)
            at_once = max(at_once, len(some))
            by_turns.update(some)
            assert (outcome.state, partial.state) == ("ok", "partial")
            assert used > 0.5 * TRUTH, used
            assert len(processes) > 0.9 * PROCESSES
            assert len(by_turns) > 1.5 * at_once, "a full map has room for one process after the other"
            assert "a map was full" in (partial.reason or "")

        eventually(are_answered)
        assert most < TRUTH + SLACK
