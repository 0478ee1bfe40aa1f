"""Which program a declaration is meant for: command lines and environments that declare something of another one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaudit.ranks.declaration import Declaration, Placeable, Runtimes, Told
from numaudit.ranks.table import declarations, environment_in, given_in, runtimes_in
from numaudit.topology.nodeset import CpuSet, NodeSet

FOUR_NODES = Placeable(
    {node: CpuSet.parse(f"{4 * node}-{4 * node + 3}") for node in range(4)},
    NodeSet.parse("0-3"),
    CpuSet.parse("0-15"),
)
NONE, TEAM = Runtimes(frozenset(), 1), Runtimes(frozenset({"openmp"}), 4)
MPI = Runtimes(frozenset({"mpi"}), 1)
Words = tuple[str, ...]


def raw(*words: str) -> bytes:
    return b"".join(word.encode() + b"\0" for word in words)


def told(own: Words, above: tuple[Words, ...] = (), environ: str = "", runtimes: Runtimes | str = NONE) -> Told:
    """`above`: command lines of its ancestors, the nearest first."""
    ancestors = tuple(given_in(raw(*one)) for one in above)
    return Told(given_in(raw(*own)), ancestors, environment_in(raw(*environ.split())), runtimes)


def says(found: tuple[Declaration, ...]) -> str:
    """`bind 1, 4-7`; `unknown`; empty = nothing is declared."""
    words = []
    for one in found:
        if one.has_memory:
            words.append(f"{one.policy} {one.memory_nodes}" if one.memory_nodes else f"{one.policy}")
        if one.has_cpus:
            words.append("one node" if one.cpus is None else str(one.cpus))
        if one.unresolved is not None:
            words.append("unknown")
        if one.doubt is not None:
            words.append("in doubt")
    return ", ".join(words)


BOUND = "numactl -m1 -N1"
OF_A_SHELL = (
    # Another command, or none, is bound.
    (f"{BOUND} ./warmup; ./rk", ""),
    (f"{BOUND} ./warmup && ./rk", ""),
    (f"{BOUND} true && ./rk", ""),
    (f"{BOUND} ./warmup || ./rk", ""),
    (f"{BOUND} ./warmup\n./rk\ntrue", ""),
    (f"{BOUND} ./warmup & ./rk & wait", ""),
    (f"./rk | {BOUND} tee log", ""),
    (f"({BOUND} ./warmup); ./rk", ""),
    (f"warm() {{ {BOUND} ./warmup; }}; warm; ./rk", ""),
    (f"# {BOUND} ./rk was slower\n./rk; true", ""),
    (f"./rk; true # {BOUND} ./rk", ""),
    (f"echo {BOUND} ./rk; ./rk", ""),
    (f"echo '{BOUND} ./rk'; ./rk", ""),
    ("if which numactl --membind=1; then ./rk; fi; true", ""),
    ("if command -v numactl --membind=1; then ./rk; fi; true", ""),
    (f"while {BOUND} ./ready; do ./rk; done", ""),
    (f"cat > x <<END\n{BOUND} ./rk\nEND\n./rk; true", ""),
    ("numactl -m1 python3 warm.py; python3 rk; true", ""),
    ("numactl -s; taskset -p $$; ./rk; true", ""),
    ("taskset -pc 3 1234; ./rk; true", ""),
    ("taskset -p 0x8 1234; ./rk; true", ""),
    ("numactl --length=1m --file=/dev/shm/x --membind=1 --touch; ./rk; true", ""),
    ("numactl --length=1m --file=/dev/shm/x --membind=1 ./rk; true", ""),
    ("numactl --shm /x --membind=1; ./rk; true", ""),
    ("numactl -I 3 --membind=1 --touch ./rk; true", ""),
    ("numademo -m 1; mynumactl -m1; ./rk; true", ""),
    # Its nodes are not in the text.
    ("numactl -m $RANK -N $RANK ./rk; true", ""),
    ("numactl --membind=${N} --cpunodebind=${N} ./rk; true", ""),
    ("numactl --membind=$((RANK/2)) ./rk; true", ""),
    ("numactl --membind=$(cat node) ./rk; true", ""),
    # It runs once with them, and once without.
    ("numactl -m9 ./rk || ./rk; true", "unknown"),
    ("numactl -m0 ./rk & numactl -m1 ./rk & wait", "unknown"),
    # The program that it bound may have become this one.
    (f"cd /opt && {BOUND} ./run.sh", "bind 1, 4-7, in doubt"),
    (f"ulimit -l unlimited; {BOUND} ./run.sh; exit", "bind 1, 4-7, in doubt"),
    (f"{BOUND} ./run.sh; ./other.sh", ""),
    (f"{BOUND} ./run.sh | tee log", ""),
    (f"./run.sh; {BOUND} true", ""),
    # It is bound.
    (f"{BOUND} ./rk; true", "bind 1, 4-7"),
    (f"{BOUND} ./rk 2>&1 | tee log", "bind 1, 4-7"),
    (f"./feed | {BOUND} ./rk >/dev/null && true", "bind 1, 4-7"),
    (f"numactl -m0 ./warmup; {BOUND} ./rk; true", "bind 1, 4-7"),
    (f"if true; then {BOUND} ./rk; fi; true", "bind 1, 4-7"),
    (f"for n in 1 2; do {BOUND} ./rk; done", "bind 1, 4-7"),
    (f"! {BOUND} ./rk &", "bind 1, 4-7"),
    (f"# it's faster so\n{BOUND} ./rk; true", "bind 1, 4-7"),
    ('numactl --membind="1" -N \'1\' "./rk"; true', "bind 1, 4-7"),
    ("numactl --membind=1 \\\n -N 1 ./rk; true", "bind 1, 4-7"),
    (f"FOO=1 env BAR=2 nice -n 5 {BOUND} /opt/rk; true", "bind 1, 4-7"),
    (f"{BOUND} nice -n 5 ./rk; true", "bind 1, 4-7"),
    (f"{BOUND} -- ./rk --threads $(nproc); true", "bind 1, 4-7"),
    ("taskset -c 0-7:2 ./rk; true", "0,2,4,6"),
    ("numactl -m1 taskset -c 5 ./rk; true", "bind 1, 5"),
    ("hwloc-bind numanode:1 --membind numanode:1 ./rk; true", "preferred 1, 4-7"),
)


@pytest.mark.parametrize(("text", "expected"), OF_A_SHELL)
def test_of_a_shells_text_only_the_command_counts_that_runs_the_process(text: str, expected: str) -> None:
    assert says(declarations(told(("./rk",), (("sh", "-c", text),)), FOUR_NODES)) == expected


@pytest.mark.parametrize(
    "shell",
    [
        *("bash -lc", "bash -e -c", "bash -ec", "bash -o pipefail -c", "bash -euo pipefail -c", "bash --norc -c"),
        *("bash --rcfile x +e -c --", "-bash -c", "busybox sh -c", "/bin/dash -x -c", "su - user -c", "su user -c"),
    ],
)
def test_the_text_of_a_shell_is_found_as_the_shell_finds_it(shell: str) -> None:
    above = (*shell.split(), f"{BOUND} ./rk; true")
    assert says(declarations(told(("./rk",), (above,)), FOUR_NODES)) == "bind 1, 4-7"


OF_A_PROGRAM = (
    (f"timeout 99 {BOUND} ./rk", "bind 1, 4-7"),
    (f"tini -- {BOUND} ./rk", "bind 1, 4-7"),
    # Its program has become this one, or has another name.
    (f"tini -- {BOUND} entrypoint.sh ./rk", "bind 1, 4-7, in doubt"),
    (f"/sbin/dumb-init {BOUND} /entrypoint.sh", "bind 1, 4-7, in doubt"),
    (f"timeout 9 {BOUND} ./run.sh", "bind 1, 4-7, in doubt"),
    ("sudo -u me taskset -c 4-7 ./run.sh", "4-7, in doubt"),
    ("tini -- hwloc-bind numanode:1 ./run.sh", "4-7, in doubt"),
    ("tini -- ./run.sh", ""),
    (f"mpirun -n 2 {BOUND} ./run.sh", ""),
    (f"xargs -P2 {BOUND} ./run.sh", ""),
    (f"python3 -c text {BOUND} ./run.sh", ""),
    ("systemd-run --scope -p CPUAffinity=3 ./rk", ""),
    ("nohup sh run.sh numactl --membind=1", ""),
    (f"mpirun -n 2 --bind-to none {BOUND} ./rk", "bind 1, 4-7"),
    (f"{BOUND} taskset -c 5 ./rk", "bind 1, 4-7"),
    ("mpirun -n 1 numactl -m0 ./rk : -n 1 numactl -m1 ./rk", "unknown"),
    ("mpirun -n 1 numactl -m0 ./other : -n 1 numactl -m1 ./rk", "bind 1"),
    ("timeout 99 taskset -c 0-7:2 ./rk", "0,2,4,6"),
    ("parallel numactl -m {} ./rk ::: 0 1", ""),
    ("grep -r numactl -m 1 .", ""),
    (f"ssh host {BOUND} ./rk", ""),
    (f"docker run image {BOUND} ./rk", ""),
    ("sh run.sh numactl --membind=1", ""),
    ("watch numactl -m1 true", ""),
    ("bash --norc run.sh -c numactl", ""),
)


@pytest.mark.parametrize(("line", "expected"), OF_A_PROGRAM)
def test_of_a_programs_words_only_those_count_that_start_the_process(line: str, expected: str) -> None:
    assert says(declarations(told(("./rk",), (tuple(line.split()),)), FOUR_NODES)) == expected


def test_a_child_inherits_what_its_parent_was_started_with() -> None:
    child, script = ("./child",), ("/bin/sh", "./run.sh")
    assert says(declarations(told(child, (("./rk",), ("sh", "-c", "numactl -m1 ./rk; true"))), FOUR_NODES)) == "bind 1"
    assert says(declarations(told(child, (script, ("timeout", "9", "numactl", "-m1", "./run.sh"))), FOUR_NODES))
    within = (("sh", "-c", "numactl -m1 ./other; ./rk"), ("timeout", "9", "numactl", "-m2", "sh", "-c", "..."))
    assert says(declarations(told(("./rk",), within), FOUR_NODES)) == "bind 2"


def test_a_program_of_a_name_that_another_command_bound_is_not_meant() -> None:
    above = (("./srv",), ("sh", "-c", "numactl -m1 ./rk; ./srv"))
    assert declarations(told(("./rk",), above), FOUR_NODES) == ()


def test_a_process_that_wrote_over_its_command_line_is_known_by_its_file() -> None:
    above = (given_in(raw("timeout", "9", "numactl", "-m1", "python3", "serve.py")),)
    for file, expected in (("python3.11", "bind 1"), ("bash", "bind 1, in doubt"), (None, "bind 1, in doubt")):
        renamed = Told(given_in(raw("VLLM::EngineCore"), file), above)
        assert says(declarations(renamed, FOUR_NODES)) == expected


OF_AN_ENVIRONMENT = (
    ("OMP_PLACES=cores", NONE, ""),
    ("OMP_PLACES=cores", replace(TEAM, threads=1), ""),
    ("OMP_PLACES=cores", MPI, ""),
    ("OMP_PLACES=cores", replace(TEAM, threads=2), "one node"),
    ("OMP_PLACES=cores", "Permission denied", "unknown"),
    ("OMP_PROC_BIND=true", TEAM, ""),
    ("GOMP_CPU_AFFINITY=0-1", NONE, ""),
    ("GOMP_CPU_AFFINITY=0-1", TEAM, "0-1"),
    ("KMP_AFFINITY=explicit,proclist=[0,1]", NONE, ""),
    ("KMP_AFFINITY=explicit,proclist=[0,1]", TEAM, "0-1"),
    ("VLLM_CPU_OMP_THREADS_BIND=auto", TEAM, ""),
    ("VLLM_CPU_OMP_THREADS_BIND=0-7|8-15", NONE, ""),
    ("VLLM_CPU_OMP_THREADS_BIND=0-7|8-15", TEAM, "unknown"),
    ("I_MPI_PIN_DOMAIN=numa", MPI, ""),
    ("I_MPI_PIN_DOMAIN=numa PMI_RANK=0", NONE, ""),
    ("I_MPI_PIN_DOMAIN=numa PMI_RANK=0", MPI, "one node"),
    ("I_MPI_PIN_DOMAIN=numa PMI_RANK=0", "Permission denied", "unknown"),
    ("I_MPI_PIN_PROCESSOR_LIST=0-3", MPI, ""),
    ("I_MPI_PIN_PROCESSOR_LIST=0-3 MPI_LOCALRANKID=2", MPI, "2"),
    ("I_MPI_PIN_INFO=0-3", MPI, ""),
    ("MV2_CPU_MAPPING=0:1:2:3", MPI, ""),
    ("MV2_CPU_MAPPING=0:1:2:3 MV2_COMM_WORLD_LOCAL_RANK=1", NONE, ""),
    ("MV2_CPU_MAPPING=0:1:2:3 MV2_COMM_WORLD_LOCAL_RANK=1", MPI, "1"),
    ("SLURM_CPU_BIND=quiet,mask_cpu:0x1 SLURM_LOCALID=0 SLURM_JOB_ID=1", NONE, ""),
)


@pytest.mark.parametrize(("environ", "runtimes", "expected"), OF_AN_ENVIRONMENT)
def test_variables_count_where_the_runtime_that_follows_them_runs(
    environ: str, runtimes: Runtimes | str, expected: str
) -> None:
    assert says(declarations(told(("./rk",), (), environ, runtimes), FOUR_NODES)) == expected


OF_ITS_OWN = (
    ("java -XX:+UseNUMA -XX:-UseNUMA -jar x.jar", ""),
    ("java -XX:-UseNUMA -XX:+UseNUMA -jar x.jar", "any"),
    ("java -jar x.jar -XX:+UseNUMA", ""),
    ("java Main -XX:+UseNUMA", ""),
    ("java -cp /a:/b -XX:+UseNUMA Main", "any"),
    ("java --add-modules a.b -p mods -XX:+UseNUMA -m app", "any"),
    ("java -m app -XX:+UseNUMA", ""),
    ("./rk --cpuset 3", ""),
    ("./rk -l 3", ""),
    ("timeout 9 numactl -m1 ./rk", ""),
)


@pytest.mark.parametrize(("line", "expected"), OF_ITS_OWN)
def test_of_its_own_options_those_count_that_it_reads(line: str, expected: str) -> None:
    assert says(declarations(told(tuple(line.split())), FOUR_NODES)) == expected


NOT_READ = {f"{BOUND} ./run.sh | tee log", f"mpirun -n 2 {BOUND} ./run.sh", f"xargs -P2 {BOUND} ./run.sh"}
"""Scripts that may have become the process, where it may also be another one."""


def test_of_twenty_launches_at_most_one_is_not_read() -> None:
    launches = [text for text, *_ in (*OF_A_SHELL, *OF_A_PROGRAM, *OF_AN_ENVIRONMENT, *OF_ITS_OWN)]
    assert set(launches) > NOT_READ
    assert 20 * len(NOT_READ) <= len(launches)


def test_runtimes_are_known_by_their_libraries() -> None:
    of_openmp = ("libgomp.so.1", "libgomp-a34b3233.so.1.0.0", "libomp.so.5", "libiomp5.so", "libomp5-x.so")
    of_mpi = ("libmpi.so.40", "libmpi-1f.so", "libmpich.so.12", "libmpi_cxx.so.1")
    assert all(runtimes_in([name]) == {"openmp"} for name in of_openmp)
    assert all(runtimes_in([name]) == {"mpi"} for name in of_mpi)
    assert runtimes_in(["libompi.so", "libmpiexec.so", "libc.so.6", "mylibgomp.so"]) == frozenset()
