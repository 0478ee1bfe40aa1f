"""The agent runs here for real: containers under runc, BPF programs, scraped over loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from container import Container, container
from processes.agent_process import Agent, running_agent
from workload import MIB, eventually

UID = "7b1f3c52-52a1-4be0-9d0c-6c7e1c1f9a01"
POD_LOGS = Path(f"/var/log/pods/lab_spinner_{UID}")
PATIENTLY = ("--interval", "1s", "--set", "web.timeout=300s")
"""An answer may take longer than the usual 5 s where all CPUs of the guest share one of the host's."""
SPIN = ["dd", "if=/dev/zero", "of=/dev/null", "bs=24M"]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    POD_LOGS.mkdir(parents=True, exist_ok=True)
    log = tmp_path_factory.mktemp("agent") / "log"
    with running_agent(*PATIENTLY, log=log) as running:
        yield running
    POD_LOGS.rmdir()


def _spinner() -> AbstractContextManager[Container]:
    """Runs on node 1's CPU, with 24 MiB on node 2."""
    return container(UID, "main", SPIN, cpus="1", mems="2")


def _cpu_seconds(agent: Agent) -> dict[str, float]:
    counted = agent.samples().get("numaudit_container_cpu_seconds_total", {})
    return {
        dict(labels)["numa_node"]: value
        for labels, value in counted.items()
        if {("namespace", "lab"), ("pod", "spinner"), ("container", "main")} <= labels
    }


def test_memory_and_cpu_time_by_node_are_scraped_and_go_on_after_a_restart(agent: Agent) -> None:
    def probes_are_loaded() -> None:
        assert agent.value("numaudit_feature_enabled", feature="bpf_cpu_time") == 1

    eventually(probes_are_loaded)

    def anon(node: int) -> float | None:
        labels = {"pod": "spinner", "container": "main", "numa_node": str(node), "type": "anon"}
        return agent.value("numaudit_container_resident_bytes", **labels)

    with _spinner():

        def where_it_is() -> None:
            assert (anon(2) or 0) >= 24 * MIB
            assert (anon(1) or 0) < MIB

        def where_it_runs() -> None:
            assert _cpu_seconds(agent).get("1", 0) > 0.5

        eventually(where_it_is)
        eventually(where_it_runs)
        assert agent.value("numaudit_container_allowed_node", pod="spinner", container="main", resource="memory") == 1
        # runc itself runs in the cgroup, wherever it likes, before the container's program does.
        started = _cpu_seconds(agent)

        def runs_on_node_1_alone() -> dict[str, float]:
            now = _cpu_seconds(agent)
            grown = {node: seconds - started.get(node, 0) for node, seconds in now.items()}
            assert grown["1"] > 1
            assert grown["1"] >= 0.9 * sum(grown.values())
            return now

        before = eventually(runs_on_node_1_alone)
    with _spinner() as again:
        # Not by scraping: two scrapes that find only what has ended make the agent forget it.
        eventually(lambda: _is_in_a_tick(agent, again))
        carried_on = _cpu_seconds(agent)
        assert carried_on["1"] >= before["1"]

        def goes_on() -> None:
            assert _cpu_seconds(agent).get("1", 0.0) > carried_on["1"]

        eventually(goes_on)


def _is_in_a_tick(agent: Agent, running: Container) -> None:
    assert running.cgroup.id in {one["id"] for one in agent.report()["containers"]}


def test_what_has_ended_is_forgotten_after_two_scrapes(agent: Agent) -> None:
    def is_forgotten() -> None:
        assert _cpu_seconds(agent) == {}

    eventually(is_forgotten)
