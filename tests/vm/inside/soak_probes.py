"""Runs in the guest: an agent with every probe, a scraper, and cgroups with a working process that come and go.

It fails when the agent grows, a tick fails, or a probe's maps lose events.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from processes.agent_process import Agent, running_agent
from soak import Sizes, grows, sizes_of
from workload import CGROUPS, Cgroup, remove_cgroup

PROBES = "page_alloc, cpu_time, hint_faults, migrations"
ALIVE, EVERY = 4, 0.5
"""Cgroups at a time; seconds until another one takes the place of the oldest."""
_SHOWN_EVERY = 8
"""Looks at the agent's sizes from one that is printed to the next."""
WORK = """
import time
block = bytearray(4 << 20)
end = time.monotonic() + 3
while time.monotonic() < end:
    sum(block[::4096])
"""


def main(arguments: Sequence[str]) -> int:
    seconds = float(arguments[0])
    (CGROUPS / "cgroup.subtree_control").write_text("+memory +cpuset")  # as systemd does on most hosts
    with tempfile.TemporaryDirectory() as folder:
        options = ("--interval", "1s", "--set", f"probes={PROBES}")
        with running_agent(*options, log=Path(folder) / "log", ready_within=180) as agent:
            running = _until_loaded(agent)
            sizes, made = _churn(agent, seconds)
            failed = _judge(agent, sizes, made, running)
            if failed:
                print(agent.log()[-3000:])
    return int(failed)


def _until_loaded(agent: Agent) -> list[str]:
    """The probes that run, once nothing is being loaded any more."""
    while True:
        problems = agent.samples().get("numaudit_feature_problem_info", {})
        if not any(("reason", "loading") in labels for labels in problems):
            break
        time.sleep(1)
    enabled = agent.samples()["numaudit_feature_enabled"]
    return sorted(dict(labels)["feature"] for labels, value in enabled.items() if value and "bpf" in str(labels))


def _churn(agent: Agent, seconds: float) -> tuple[list[Sizes], int]:
    begun, turn, sizes = time.monotonic(), 0, []
    live: list[tuple[Cgroup, subprocess.Popen[bytes]]] = []
    while time.monotonic() - begun < seconds:
        live.append(_start(turn))
        if len(live) > ALIVE:
            _end(*live.pop(0))
        if turn % 4 == 0:
            agent.get("/metrics")
            sizes.append(sizes_of(agent.process.pid, time.monotonic() - begun))
            if len(sizes) % _SHOWN_EVERY == 1:
                print(sizes[-1], flush=True)
        turn += 1
        time.sleep(EVERY)
    for one in live:
        _end(*one)
    print(sizes[-1], flush=True)
    return sizes, turn


def _start(turn: int) -> tuple[Cgroup, subprocess.Popen[bytes]]:
    group = Cgroup(CGROUPS / f"soak-{turn}")
    group.path.mkdir()
    work = subprocess.Popen([sys.executable, "-c", WORK])
    group.write("cgroup.procs", str(work.pid))
    return group, work


def _end(group: Cgroup, work: subprocess.Popen[bytes]) -> None:
    work.kill()
    work.wait()
    remove_cgroup(group)


def _judge(agent: Agent, sizes: Sequence[Sizes], made: int, running: Sequence[str]) -> bool:
    failed = grows(sizes)
    counts = agent.samples()
    lost = {
        (dict(labels)["probe"], dict(labels)["reason"]): value
        for labels, value in counts.get("numaudit_lost_events_total", {}).items()
        if value
    }
    events = {dict(labels)["probe"]: value for labels, value in counts.get("numaudit_bpf_events_total", {}).items()}
    failed_ticks = next(iter(counts["numaudit_failed_ticks_total"].values()))
    print(f"{made} cgroups came and went; probes that ran: {', '.join(running)}")
    print(f"events {events}; lost {lost}; failed ticks {failed_ticks:.0f}")
    full = [probe for probe, reason in lost if reason == "map-full"]
    return failed or bool(failed_ticks) or bool(full) or not running


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
