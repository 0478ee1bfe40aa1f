"""Slurm's srun and slurmd: what a task shows of --cpu-bind and --mem-bind, and a task that reset its policy."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from launched import (
    FROM_DEBIAN,
    LIBRARIES,
    cpus_of,
    named_host,  # noqa: F401
    program,
    programs,  # noqa: F401
    ranks,
    tried_with,
)
from workload import MIB, PAGE, Cgroup, cgroup, eventually

pytestmark = pytest.mark.one_kernel
TASKS = range(2)
SLURM = """\
ClusterName=guest
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 Sockets=4 CoresPerSocket=1 ThreadsPerCore=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""
RANK = """\
import json, os, sys
sys.path.insert(0, sys.argv[1])
import rank
sys.argv[1] = json.dumps(json.loads(sys.argv[2]) if os.environ["SLURM_LOCALID"] == sys.argv[3] else [["touch", 8]])
rank.main()
"""
"""Uses memory, and in one task does other steps."""


class Slurm:
    """A controller and a node's daemon in one cgroup, where its tasks run, too."""

    def __init__(self, group: Cgroup, folder: Path) -> None:
        (folder / "state").mkdir()
        (folder / "spool").mkdir()
        plugins = LIBRARIES / "slurm-wlm"
        text = SLURM.format(host=socket.gethostname(), folder=folder, plugins=plugins)
        (folder / "slurm.conf").write_text(text)
        self.group, self.log = group, folder / "log"
        self.environment = {**os.environ, **FROM_DEBIAN, "SLURM_CONF": str(folder / "slurm.conf")}
        self.start(program("slurmctld-wlm"), "-D", "-c")
        self.start(program("slurmd-wlm"), "-D", "-d", program("slurmstepd-wlm"))
        eventually(self._is_idle)

    def start(self, *command: str) -> subprocess.Popen[str]:
        joining = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.group.path / "cgroup.procs"), *command]
        with self.log.open("a") as log:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} if "srun" in command[0] else {"stdout": log}
            return subprocess.Popen(joining, env=self.environment, text=True, stderr=log, **pipes)

    def _is_idle(self) -> None:
        done = subprocess.run(
            [program("sinfo"), "-h", "-o", "%T"], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == "idle", f"{done} {self.log.read_text()[-1000:]}"

    @contextlib.contextmanager
    def tasks(self, *options: str, other: int = 9, steps: Sequence[Any] = ()) -> Iterator[list[dict[str, Any]]]:
        """Each task's account of itself, by its id. Task `other` does other steps."""
        words = (
            sys.executable,
            "-I",
            "-S",
            "-c",
            RANK,
            str(Path(__file__).parent),
            json.dumps(list(steps)),
            str(other),
        )
        srun = self.start(program("srun"), "-n", str(len(TASKS)), *options, *words)
        assert srun.stdout is not None
        try:
            accounts = [json.loads(line) for line in (srun.stdout.readline() for _ in TASKS) if line]
            assert len(accounts) == len(TASKS), self.log.read_text()[-2000:]
            yield sorted(accounts, key=_task)
        finally:
            srun.terminate()
            srun.wait()


def _task(account: dict[str, Any]) -> int:
    words = Path(f"/proc/{account['pid']}/environ").read_bytes().split(b"\0")
    return next(int(word.partition(b"=")[2]) for word in words if word.startswith(b"SLURM_LOCALID="))


@pytest.fixture(scope="module")
def slurm(named_host: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:  # noqa: F811
    # Slurm looks up addresses with AI_ADDRCONFIG, which finds none on a machine that has but 127.0.0.1.
    address = ["busybox", "ip", "address", "add", "192.0.2.1/32", "dev", "lo"]
    subprocess.run(address, check=True)
    with cgroup("numaudit-ranks/slurm", cpus="0-3", mems="0-3") as group:
        yield Slurm(group, tmp_path_factory.mktemp("slurm"))
    subprocess.run([*address[:3], "del", *address[4:]], check=True)


def test_a_task_that_reset_its_policy_is_told_from_those_that_slurm_bound(slurm: Slurm) -> None:
    tried_with("slurm", "Slurm", (program("srun"), "--version"), slurm.environment)
    wrong: list[Any] = [["policy", "default", []], ["touch", 8]]
    options = ("--cpu-bind=map_cpu:1,0", "--mem-bind=map_mem:3,2")
    with slurm.tasks(*options, other=1, steps=wrong) as accounts:
        pids = [one["pid"] for one in accounts]
        assert [cpus_of(pid)[0] for pid in pids] == ["1", "0"]
        # The other one's memory is where it ran.
        assert [one["pages"][0] for one in accounts] == [{str(node): 8 * MIB // PAGE} for node in (3, 0)]
        found = ranks(slurm.group)
        assert [found[pid].rank for pid in pids] == list(TASKS)
        assert {one.launcher for one in found[pids[0]].declarations} == {"slurm", "slurm-cpus"}
        verdicts = [(found[pid].verdict, [one.cause for one in found[pid].problems]) for pid in pids]
        assert verdicts == [("in-force", []), ("declared-not-in-force", ["not-set"])]


def test_a_task_that_left_the_cores_of_slurm_is_found(slurm: Slurm) -> None:
    tried_with("slurm-cpus", "Slurm", (program("srun"), "--version"), slurm.environment)
    with slurm.tasks("--cpu-bind=cores", "--mem-bind=local", other=1, steps=[["cpus", [0, 1, 2, 3]]]) as accounts:
        found = ranks(slurm.group)
        ranked = [found[one["pid"]] for one in accounts]
        assert [one.declarations[0].source for one in ranked] == ["SLURM_MEM_BIND"] * 2
        assert [str(one.declarations[1].cpus) for one in ranked] == [cpus_of(ranked[0].pid)[0], "1"]
        assert [one.verdict for one in ranked] == ["in-force", "declared-not-in-force"]
        assert ranked[1].problems[0].cause == "cpus-not-bound"
