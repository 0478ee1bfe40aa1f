"""Who holds memory, the folder in which that is written down, and what `run --report` says of its command."""

from __future__ import annotations

import errno
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from numaudit.checkpoints.formats.file import CPU, MEMORY
from numaudit.containermanager.memory.state import Block
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import InputError, Unavailable
from numaudit.intent.node import Promise
from numaudit.kernel.host import Host
from numaudit.kubelet.sources.process import locate
from numaudit.memorymanager.commands import CommandRequest, command_pod, held_by, place, read_configuration
from numaudit.run import cgroup
from numaudit.run.cgroup import RunHolder, is_alive, is_needed
from numaudit.run.holding import RunCgroups, StateFolder, hold, locked, require_no_static_kubelet, require_other_folder
from numaudit.run.watch import CommandWatch
from numaudit.snapshot import Allowed, Container, ContainerId, Resident, Snapshot
from numaudit.topology.machine import Cpu, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

HOST = Host()
MACHINE = Machine((Node(0, CpuSet.of(0, 1), 1 << 30),), tuple(Cpu(n, 0, 0, n, CpuSet.of(n), 0) for n in range(2)))


def test_a_holder_is_alive_as_long_as_its_process(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "1000"])
    me = RunHolder.this_process(HOST)
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    other = RunHolder(process.pid, int(stat[19]), me.boot)
    assert is_alive(HOST, str(me), tmp_path)
    assert is_alive(HOST, str(other), tmp_path)
    process.kill()
    process.wait()
    assert not is_alive(HOST, str(other), tmp_path)


def test_a_holder_that_was_killed_is_dead_before_its_parent_has_waited_for_it(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "1000"])
    stat = Path(f"/proc/{process.pid}/stat")
    other = RunHolder(
        process.pid, int(stat.read_text().rpartition(")")[2].split()[19]), RunHolder.this_process(HOST).boot
    )
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert stat.read_text().rpartition(")")[2].split()[0] == "Z"
    assert not is_alive(HOST, str(other), tmp_path)
    assert not is_needed(HOST, other.cgroup)
    process.wait()


def left_behind(folder: Path, *pids: int) -> Path:
    """A cgroup with these processes in it and below it."""
    for path, names in ((folder, pids[:1]), (folder / "below", pids[1:])):
        path.mkdir()
        (path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in names))
    (folder / "cgroup.events").write_text("populated 1\n")
    return folder


def test_what_is_left_and_wants_a_cpu_may_take_its_time_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with a load of 15 a pipeline's last program took longer to end than a second."""
    busy, idle = subprocess.Popen(["sh", "-c", "while :; do :; done"]), subprocess.Popen(["sleep", "1000"])
    group, rounds = left_behind(tmp_path / "group", idle.pid, busy.pid), 0

    def pause(_: float) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 500:
            (group / "cgroup.events").write_text("populated 0\n")

    monkeypatch.setattr("time.sleep", pause)
    try:
        cgroup.wait_until_empty(HOST, group)
    finally:
        for one in (busy, idle):
            one.kill()
            one.wait()
    assert rounds == 500


def test_what_is_left_and_sleeps_is_soon_taken_for_a_program_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = subprocess.Popen(["sleep", "1000"])
    group, rounds = left_behind(tmp_path / "group", idle.pid), 0

    def pause(_: float) -> None:
        nonlocal rounds
        rounds += 1

    monkeypatch.setattr("time.sleep", pause)
    try:
        cgroup.wait_until_empty(HOST, group)
    finally:
        idle.kill()
        idle.wait()
    assert 90 < rounds < 1000


def test_a_cgroup_that_was_removed_while_it_was_read_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def removed(_: Path) -> str:
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr(cgroup, "read_text", removed)
    assert not cgroup.is_populated(tmp_path)


def test_another_process_with_the_same_id_or_before_a_reboot_is_another_holder(tmp_path: Path) -> None:
    me = RunHolder.this_process(HOST)
    assert not is_alive(HOST, str(replace(me, started=me.started + 1)), tmp_path)
    assert not is_alive(HOST, str(replace(me, boot="0" * 36)), tmp_path)
    assert not is_alive(HOST, "4f1b6a0e-0f0a-4d8e-9f4a-5b7d3f0d9c11", tmp_path)


def test_a_dead_holder_with_processes_in_its_cgroup_still_holds_its_memory(tmp_path: Path) -> None:
    dead = replace(RunHolder.this_process(HOST), started=1)
    events = tmp_path / dead.cgroup / "cgroup.events"
    events.parent.mkdir()
    events.write_text("populated 1\nfrozen 0\n")
    assert is_alive(HOST, str(dead), tmp_path)
    events.write_text("populated 0\nfrozen 0\n")
    assert not is_alive(HOST, str(dead), tmp_path)


def test_the_cgroup_of_a_run_that_goes_on_is_needed_whatever_its_state_folder(tmp_path: Path) -> None:
    me = RunHolder.this_process(HOST)
    assert is_needed(HOST, me.cgroup)
    assert not is_needed(HOST, replace(me, started=me.started + 1).cgroup)
    assert is_needed(HOST, "run-by-somebody-else")


def test_what_is_written_is_read_again_and_unfinished_files_are_removed(tmp_path: Path) -> None:
    kubelet = read_configuration(None, MACHINE)
    with locked(tmp_path / "state") as store:
        memory, cpu = store.read()
        state = place(
            kubelet, held_by(kubelet, memory, cpu, lambda _: True), command_pod("me", "app", CommandRequest(1 << 20, 1))
        ).state
        store.write(state)
    (tmp_path / "state" / f".{MEMORY}.abc").write_text("half")
    with locked(tmp_path / "state") as store:
        memory, cpu = store.read()
    assert memory == state.memory.state
    assert state.cpu is not None and (cpu.default_cpus, cpu.entries) == (state.cpu.default_cpus, state.cpu.entries)
    assert sorted(one.name for one in (tmp_path / "state").iterdir()) == [CPU, "lock", MEMORY]


@pytest.mark.parametrize("content", ["", "{", '{"policyName":"Static","machineState":{},"checksum":1}'])
def test_a_damaged_file_is_refused_with_the_way_out(content: str, tmp_path: Path) -> None:
    (tmp_path / MEMORY).write_text(content)
    with locked(tmp_path) as store, pytest.raises(InputError, match=r"is damaged.*then remove the file"):
        store.read()
    assert (tmp_path / MEMORY).read_text() == content


def test_the_second_waits_for_the_lock_and_may_give_up(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def give_up() -> None:
        raise Enough

    with locked(tmp_path), pytest.raises(Enough), locked(tmp_path, give_up):
        pass


def test_a_folder_that_cannot_be_made_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="--state-dir"), locked(tmp_path / "file" / "state"):
        pass


def test_the_kubelets_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "var/lib/kubelet/below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "var/lib/kubelet")
    host = Host.under(tmp_path)
    for folder in ("var/lib/kubelet", "var/lib/kubelet/below", "link/new"):
        with pytest.raises(InputError, match="the kubelet's own folder"):
            require_other_folder(locate(host), tmp_path / folder)
    require_other_folder(locate(host), tmp_path / "var/lib/numaudit")


@pytest.mark.parametrize(
    ("configuration", "refused"),
    [
        ("memoryManagerPolicy: Static\n", "its Memory Manager has"),
        ("cpuManagerPolicy: static\n", "its CPU Manager has"),
        ("cpuManagerPolicy: none\n", None),
        ("cpuManagerPolicy: [\n", "its policies are not known"),
    ],
)
def test_a_kubelet_with_a_static_policy_is_refused_and_another_is_not(
    configuration: str, refused: str | None, tmp_path: Path
) -> None:
    process = tmp_path / "proc/77"
    process.mkdir(parents=True)
    (process / "comm").write_text("kubelet\n")
    (process / "cmdline").write_text("kubelet\0--config=/etc/kubelet.yaml\0")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/kubelet.yaml").write_text(f"kind: KubeletConfiguration\n{configuration}")
    host = Host.under(tmp_path)
    if refused is None:
        require_no_static_kubelet(locate(host))
        return
    with pytest.raises(Unavailable, match=refused) as error:
        require_no_static_kubelet(locate(host))
    assert "--beside-kubelet" in str(error.value)


def test_two_processes_that_may_each_be_the_kubelet_are_refused_by_name(tmp_path: Path) -> None:
    for pid in (77, 78):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/comm").write_text("kubelet\n")
    with pytest.raises(Unavailable, match=r"processes 77, 78 are each called kubelet.*--beside-kubelet"):
        require_no_static_kubelet(locate(Host.under(tmp_path)))


def test_a_host_whose_cpusets_are_version_1_is_refused_by_name(tmp_path: Path) -> None:
    mounts = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/mounts").write_text(mounts)
    unified = tmp_path / "sys/fs/cgroup/unified"
    unified.mkdir(parents=True)
    (unified / "cgroup.controllers").write_text("pids hugetlb\n")
    with pytest.raises(Unavailable, match="cpuset controller of cgroup version 2") as error:
        cgroup.mount(Host.under(tmp_path), CommandRequest(1))
    assert "systemd.unified_cgroup_hierarchy=1" in str(error.value)


def test_reading_needs_no_file(tmp_path: Path) -> None:
    assert StateFolder(tmp_path).read()[0].entries == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("made", [False, True])
def test_a_command_whose_cgroup_cannot_be_made_gives_its_memory_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    def make(*_: object) -> None:
        if not made:
            raise Unavailable("the kernel refuses")

    monkeypatch.setattr("numaudit.run.cgroup.mount", lambda *_: tmp_path / "cgroup")
    monkeypatch.setattr("numaudit.run.cgroup.make", make)
    monkeypatch.setattr("numaudit.run.holding.release", lambda *_: None)
    monkeypatch.setattr("numaudit.run.holding.read_machine", lambda _: MACHINE)
    here = RunCgroups(HOST, tmp_path / "state", "/numaudit")
    with suppress(Unavailable), hold(here, CommandRequest(1 << 20, 0), "sleep"):
        pass
    with locked(here.state) as store:
        assert bool(store.read()[0].entries) == made


JOB = ContainerId(7)
WATCHED_MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))


class Drifted:
    """An observer of a command that somebody sent to node 1."""

    def observe(self, **_: object) -> Snapshot:
        return Snapshot(
            taken_at=1000.0,
            machine=WATCHED_MACHINE,
            cgroup_mode="v2",
            containers=(Container(JOB, "/numaudit/run-1-2", "group"),),
            allowed={JOB: Allowed(NodeSet.of(1), CpuSet.parse("0-3"))},
            residency={JOB: Resident(anon={0: 0, 1: 1 << 30}, shmem={})},
        )


def test_a_command_is_started_again_where_a_pod_would_be_deleted() -> None:
    promise = Promise((Block.of("memory", 1 << 30, NodeSet.of(0)),), CpuSet())
    watch = CommandWatch(Engine(cast("Observer", Drifted())), JOB, "job", promise)
    watch.tick()
    report = watch.report()
    assert report is not None
    (one,) = report.containers
    assert one.verdict is not None and one.verdict.remedy is not None
    assert one.verdict.name == "drifted"
    assert one.verdict.remedy.endswith("or end the command and start it again.")
