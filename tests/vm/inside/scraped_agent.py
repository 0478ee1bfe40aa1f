"""Runs in the guest: an agent with every probe, beside containers that are treated badly one after the other.

    scraped_agent.py FOLDER SCRAPES SECONDS

FOLDER gets so many scrapes, so many seconds apart, each in a file by its time.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from container import container
from numaudit.kernel.host import Host
from processes.agent_process import Agent, running_agent
from test_verdicts import Patient, patients, write_promises

AMPLE, SCANTY = 50, 0.01
"""Per cent of all CPUs that the probes may take. Over it the agent takes a step with each tick."""
OVER_BUDGET_AT = 0.8
"""Part of the time after which the budget is too small for a moment: page_alloc shows nothing from then on."""
_STEP = 'numaudit_overhead_step{step="page_alloc-off"}'
PROBES = "page_alloc, cpu_time, hint_faults, migrations"
WORK = """
busybox dd if=/dev/zero of=/dev/shm/held bs=1M count=16 2>/dev/null
busybox awk 'BEGIN { for (;;) { for (i = 0; i < 50000; i++) kept[i] = i; system("busybox sleep 2") } }' &
while :; do busybox dd if=/dev/zero of=/dev/null bs=24M count=2 2>/dev/null; busybox sleep 1; done
"""
"""Holds 16 MiB that no process maps, uses the same few MiB over and over, and 24 MiB again and again from new."""


def main(arguments: Sequence[str]) -> int:
    folder, count, seconds = Path(arguments[0]), int(arguments[1]), float(arguments[2])
    everyone = patients()
    write_promises(Host(), everyone)
    with contextlib.ExitStack() as stack:
        log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "log"
        file = log.with_name("config.yaml")
        _write_budget(file, AMPLE)
        settings = (f"probes={PROBES}", "web.timeout=300s")
        options = ("--interval", f"{seconds}s", *(word for one in settings for word in ("--set", one)))
        agent = stack.enter_context(running_agent("--config", str(file), *options, log=log, ready_within=300))
        _until_loaded(agent)
        for one in everyone.values():
            Path(f"/var/log/pods/lab_{one.name}_{one.uid}").mkdir(parents=True)
            mems = one.promised if one.name in {"drifted", "cpu-remote"} else one.starts
            cpus = "0" if one.name == "cpu-remote" else one.cpus
            one.running = stack.enter_context(container(one.uid, "app", ["sh", "-c", WORK], cpus, mems, qos=one.qos))
        for number in range(count):
            _treat(everyone, number / count)
            if number == int(OVER_BUDGET_AT * count):
                _budget(agent, file, SCANTY)
            text = agent.get("/metrics")[1]
            if _STEP in text:
                _budget(agent, file, AMPLE)
            (folder / f"{time.time():.3f}.txt").write_text(text)
            time.sleep(seconds)
    return 0


def _write_budget(file: Path, percent: float) -> None:
    file.write_text(json.dumps({"overhead": {"max_cpu_percent": percent}}))


def _budget(agent: Agent, file: Path, percent: float) -> None:
    """Holds from the next tick on."""
    _write_budget(file, percent)
    agent.process.send_signal(signal.SIGHUP)


def _until_loaded(agent: Agent) -> None:
    while 'reason="loading"' in agent.get("/metrics")[1]:
        time.sleep(1)


def _treat(everyone: dict[str, Patient], part: float) -> None:
    """What befalls them at which part of the time."""
    if part >= 0.2:
        everyone["spilled"].write("cpuset.mems", "0")
    if part >= 0.4:
        everyone["drifted"].write("cpuset.mems", "1")
    if part >= 0.6:
        everyone["cpu-remote"].write("cpuset.cpus", "2")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
