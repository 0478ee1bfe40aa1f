"""Signals and changed settings at any moment of the agent's life: it ends when it is asked to, reloads, and never dies
of one."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from clusters.config_map import ConfigMap
from hosts.node_tree import NodeTree
from processes.agent_process import NUMAUDIT, PATIENCE, eventually, running_agent

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace needs root")
FIRST_PROCESS = ("unshare", "--pid", "--fork", "--mount-proc")
AGENTS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def _catches(pid: int, *signals: signal.Signals) -> bool:
    """Python itself begins without our handlers."""
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE)
    return match is not None and all(int(match[1], 16) >> number - 1 & 1 for number in signals)


def _first_process(unshare: int) -> int:
    assert eventually(lambda: len(psutil.Process(unshare).children()) == 1)
    pid = psutil.Process(unshare).children()[0].pid
    assert eventually(lambda: _catches(pid, *AGENTS))
    return pid


@needs_root
@pytest.mark.quiet
@pytest.mark.parametrize("moment", [0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0])
def test_the_first_process_of_a_container_ends_on_sigterm_at_any_moment(
    moment: float, tree: NodeTree, tmp_path: Path
) -> None:
    arguments = ("agent", "--root", str(tree.root), "--listen", "127.0.0.1:0", "--interval", "1s")
    with (tmp_path / "log").open("wb") as log:
        unshare = subprocess.Popen([*FIRST_PROCESS, *NUMAUDIT, *arguments], stderr=log)
    try:
        agent = _first_process(unshare.pid)
        time.sleep(moment)
        os.kill(agent, signal.SIGTERM)
        begun = time.monotonic()
        assert unshare.wait(PATIENCE) == 0
        assert time.monotonic() - begun < 10  # it takes at most 3 s on an idle machine
    finally:
        unshare.kill()
        unshare.wait()


@needs_root
def test_another_verb_that_is_the_first_process_ends_on_sigterm_as_any_process(tree: NodeTree, tmp_path: Path) -> None:
    verb = ("report", "--root", "/dev/stdin")  # it waits for an archive that never comes
    unshare = subprocess.Popen([*FIRST_PROCESS, *NUMAUDIT, *verb], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert eventually(lambda: len(psutil.Process(unshare.pid).children()) == 1)
        pid = psutil.Process(unshare.pid).children()[0].pid
        assert eventually(lambda: _catches(pid, signal.SIGTERM))
        os.kill(pid, signal.SIGTERM)
        assert unshare.wait(PATIENCE) in (143, 130)  # 130: it has begun to unpack, and removed what it had
    finally:
        unshare.kill()
        unshare.wait()


@pytest.mark.parametrize("moment", [0.0, 0.1, 0.3, 0.6])
def test_no_signal_but_those_to_end_kills_an_agent_that_starts(moment: float, tree: NodeTree, tmp_path: Path) -> None:
    arguments = ("agent", "--root", str(tree.root), "--listen", "127.0.0.1:0", "--interval", "1s")
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen([*NUMAUDIT, *arguments], stderr=stderr)
    try:
        assert eventually(lambda: _catches(process.pid, *AGENTS))
        time.sleep(moment)
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            process.send_signal(number)
        assert eventually(lambda: "reload" in log.read_text())
        assert process.poll() is None
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def test_more_signals_while_the_agent_ends_change_nothing(tree: NodeTree, tmp_path: Path) -> None:
    for _ in range(3):
        with running_agent("--root", str(tree.root), "--interval", "1s", log=tmp_path / "log") as agent:
            agent.process.send_signal(signal.SIGTERM)
            numbers = itertools.cycle((signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2))
            while agent.process.poll() is None:
                agent.process.send_signal(next(numbers))
                time.sleep(0.0005)
            assert agent.process.returncode == 0


def test_a_signal_has_the_settings_read_again_and_says_what_waits_for_the_next_start(
    tree: NodeTree, tmp_path: Path
) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("interval: 1s\n")
    with running_agent("--root", str(tree.root), "--config", str(path), log=tmp_path / "log") as agent:
        begun = agent.value("numaudit_config_reload_success_timestamp_seconds") or 0
        path.write_text("interval: 1h\nmetrics: {labels: [namespace]}\nprobes: []\notlp: {endpoint: 'http://x'}\n")
        agent.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: "the settings were read again; changed: interval, metrics.labels" in agent.log())
        assert "these changed settings take effect at the next start: probes, otlp.endpoint" in agent.log()
        assert (agent.value("numaudit_config_reload_success_timestamp_seconds") or 0) > begun

        path.write_text("interval: 1s\nlog: {format: json}\nmetrics: {labels: [namespace]}\n")
        agent.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: agent.value("numaudit_container_judged_bytes", container="") is not None)
        assert agent.stop()[0] == 0


def test_a_changed_config_map_is_taken_over_without_a_signal(tree: NodeTree, tmp_path: Path) -> None:
    volume = ConfigMap(tmp_path / "volume", "agent.yaml", "interval: 1h\n")
    with running_agent("--root", str(tree.root), "--config", str(volume.path), log=tmp_path / "log") as agent:
        begun = agent.value("numaudit_config_reload_success_timestamp_seconds") or 0

        volume.swap("interval: 2s\nmetrics: {labels: [namespace]}\nprobes: []\n")
        assert eventually(lambda: agent.value("numaudit_container_judged_bytes", container="") is not None)
        assert "the settings were read again; changed: interval, metrics.labels" in agent.log()
        assert agent.log().count("these changed settings take effect at the next start: probes") == 1
        assert (agent.value("numaudit_config_reload_success_timestamp_seconds") or 0) > begun

        volume.swap("interval: never\n")
        assert eventually(lambda: agent.value("numaudit_config_reload_success") == 0)
        ticks = agent.value("numaudit_ticks_total") or 0
        assert eventually(lambda: (agent.value("numaudit_ticks_total") or 0) > ticks + 3)
        assert agent.log().count("the changed settings are invalid") == 1
        assert f"{volume.path}:1: interval must be" in agent.log()
        assert agent.value("numaudit_container_judged_bytes", container="") is not None  # those before stay

        volume.swap("interval: 1s\n")
        assert eventually(lambda: agent.value("numaudit_config_reload_success") == 1)
        assert eventually(lambda: agent.value("numaudit_container_judged_bytes", container="db") is not None)
        assert agent.stop()[0] == 0


def test_after_a_burst_of_signals_the_newest_settings_are_in_force(tree: NodeTree, tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("interval: 1s\n")
    with running_agent("--root", str(tree.root), "--config", str(path), log=tmp_path / "log") as agent:
        for number in range(200):
            path.write_text(f"interval: 1s\nmetrics: {{max_ended: {number}}}\n")
            agent.process.send_signal(signal.SIGHUP)
        path.write_text("interval: 1s\nmetrics: {labels: [namespace]}\n")
        agent.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: agent.value("numaudit_container_judged_bytes", container="") is not None)
        assert agent.stop()[0] == 0
