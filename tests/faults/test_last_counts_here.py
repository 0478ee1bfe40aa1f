"""What a cgroup counts between its last tick and its end, on this host's own kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from numaudit.containers.inventory import Census
from numaudit.engine.collectors.containers.owners import Owners
from numaudit.kernel.cgroup import Cgroup
from numaudit.kernel.host import Host
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.reasons import ProbeRefusal
from numaudit.probes.session import ProbeReadings, Session
from numaudit.snapshot import ContainerId

pytestmark = pytest.mark.root

SIZE = 32 << 20
SMALL = 8 << 20
"""What the interpreter allocates beside."""


def _census(*groups: Path) -> Census:
    ids = [group.stat().st_ino for group in groups]
    return Census((), {ContainerId(id_): (Cgroup(id_, f"/{id_}"),) for id_ in ids}, {"/": ()})


def test_a_cgroup_that_is_gone_at_the_next_tick_gives_all_that_it_counted(
    new_group: Callable[[str], Path], run_in: Callable[[Path, Sequence[str]], subprocess.Popen[str]]
) -> None:
    with Session.open(Host(), [PAGE_ALLOC, CPU_TIME], cgroups=1024, nodes=4) as session:
        for refused in (
            one for one in (session.probe(PAGE_ALLOC), session.probe(CPU_TIME)) if isinstance(one, ProbeRefusal)
        ):
            pytest.skip(str(refused))
        owners, job, other = Owners(), new_group("job"), new_group("other")
        owners.follow(_census(job, other))
        id_ = ContainerId(job.stat().st_ino)
        run_in(job, [sys.executable, "-I", "-S", "-c", f"bytearray(b'x') * {SIZE}"]).communicate()
        job.rmdir()
        for is_last_tick in (True, False):
            owners.follow(_census(other), session.cgroups())
            readings = ProbeReadings(session)
            allocated = owners.add_up("page_alloc", readings.of(PAGE_ALLOC).by_node)
            ran = owners.add_up("cpu_time", readings.of(CPU_TIME).by_node)
            readings.forget(owners.ended())
            if is_last_tick:
                assert SIZE <= sum(allocated[id_].values()) < SIZE + SMALL
                assert 0 < sum(ran[id_].values()) < 10e9
            else:
                assert id_ not in allocated.keys() | ran.keys()
                assert id_ not in session.read(PAGE_ALLOC).by_node.keys() | session.read(CPU_TIME).by_node.keys()
