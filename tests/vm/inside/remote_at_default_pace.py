"""Runs in the guest: a workload on node 0 whose memory is on node 1, both promised, judged every 15 seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from numaudit.engine.observer import Observer
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.kernel.host import Host
from numaudit.probes.kinds import KINDS
from numaudit.probes.session import ProbeReadings, Session
from numaudit.snapshot import ContainerId
from samples import SIZE, promised
from workload import cgroup, worker

INTERVAL = 15.0
SCANS = Path("/sys/kernel/debug/sched/numa_balancing")


def main(arguments: Sequence[str]) -> int:
    ticks = int(60 * float(arguments[0]) / INTERVAL)
    print("scan_period_max_ms:", (SCANS / "scan_period_max_ms").read_text().strip(), flush=True)
    with (
        Session.open(Host(), KINDS, cgroups=500, nodes=16) as session,
        cgroup("numaudit-lab/held", cpus="0", mems="0-1") as group,
        worker(group, 4 * SIZE, policy="bind-sampled", nodes=[1], threads=3) as running,
    ):
        running.order("touch")
        names = _watch(Observer.of(Host()), session, ContainerId(group.id), ticks)
    if "remote-access" not in names:
        print("the verdict never came")
        return 1
    first = names.index("remote-access")
    print(f"remote-access from tick {first} on, in {names.count('remote-access')} of {len(names) - first} ticks")
    return int(set(names[first:]) != {"remote-access"})


def _watch(observer: Observer, session: Session, key: ContainerId, ticks: int) -> list[str]:
    last, judgements = promised(observer.observe(readings=ProbeReadings(session)), key, "0-1"), Judgements()
    names: list[str] = []
    for number in range(ticks):
        time.sleep(INTERVAL)
        now = promised(observer.observe(readings=ProbeReadings(session)), key, "0-1")
        judgements = judge(now, last, judgements)
        last, verdict = now, judgements.verdicts[key]
        names.append(verdict.name)
        source = next((one for one in judgements.accesses[key] if one.source == "hint_faults"), None)
        counted = "" if source is None else f"; lower {source.lower}, age {source.age} s"
        print(f"{number:3} {verdict.name} since {verdict.since}: {verdict.reason}{counted}", flush=True)
    return names


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
