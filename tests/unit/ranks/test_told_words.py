"""Command lines and environments of strangers: what is kept of them, and that nothing else is."""

from __future__ import annotations

from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError
from numaudit.ranks import policy
from numaudit.ranks.declaration import CommandLine, Placeable, Runtimes, Told
from numaudit.ranks.launchers import units
from numaudit.ranks.table import KEYS, declarations, environment_in, given_in
from numaudit.topology.nodeset import CpuSet, NodeSet

_HERE = Placeable({0: CpuSet.parse("0-3"), 1: CpuSet.parse("4-7")}, NodeSet.of(0, 1), CpuSet.parse("0-7"))
_WORDS = st.sampled_from(
    [
        b"numactl",
        b"-m",
        b"0",
        b"--membind=",
        b"-C",
        b"sh",
        b"-c",
        b"mpirun",
        b"--bind-to",
        b"qemu-kvm",
        b"-object",
        b"&",
        b"numactl -m1 ./work; ./work # it's",
        b"./work",
        b"ray::Learner.step()",
    ]
)
_NAMES = st.sampled_from([key.encode() for key in KEYS])
_VALUES = st.one_of(
    st.binary(max_size=40),
    st.text(alphabet="0123456789,-:|xXf{}[]!+=abcdN ", max_size=40).map(str.encode),
)


def test_passwords_are_not_kept() -> None:
    line = b"numactl\0-m\0hunter2\0--membind=hunter2\0./work\0--password\0hunter2\0--numa-node\0hunter2\0"
    assert "hunter2" not in repr(given_in(line))
    assert given_in(b"qemu-kvm\0-object\0memory-backend-ram,id=hunter2,host-nodes=0,policy=bind\0").given != ()
    assert "hunter2" not in repr(
        given_in(b"qemu-kvm\0-object\0memory-backend-ram,id=hunter2,host-nodes=0,policy=bind\0")
    )
    text = b"PGPASSWORD=hunter2 numactl -m1 ./work --password hunter2; curl -u me:hunter2 x; echo 'hunter2'"
    assert "hunter2" not in repr(given_in(b"sh\0-c\0" + text + b"\0"))
    assert environment_in(b"PASSWORD=hunter2\0_VLLM_INTERNAL_NUMACTL_ARGS=$(hunter2)\0RANK=hunter2\0") == {}


def test_the_first_of_two_variables_counts() -> None:
    assert environment_in(b"RANK=1\0RANK=2\0") == {"RANK": "1"}


def test_a_long_value_is_dropped() -> None:
    assert environment_in(b"SLURM_CPU_BIND_LIST=" + b"0," * 5000) == {}
    (found,) = given_in(b"numactl\0-C\0" + b"0," * 5000 + b"0\0./work\0").commands
    assert found.given == ()


def test_a_hostile_list_of_places_takes_no_time() -> None:
    places = b"OMP_PLACES=" + b"{0:4096}:999:1," * 31
    told = Told(environment=environment_in(places), runtimes=Runtimes(frozenset({"openmp"}), 2))
    assert told.environment
    begin = process_time()
    assert declarations(told, _HERE)
    assert process_time() - begin < 2


def test_a_hostile_text_of_a_shell_takes_no_time() -> None:
    begin = process_time()
    for text in (b"a;" * 100_000, b"'" * 65_535, b"numactl " * 8000, b"\\\n" * 100_000):
        given_in(b"sh\0-c\0" + text + b"\0")
    assert process_time() - begin < 2


def test_many_words_are_cut() -> None:
    assert given_in(b"x\0" * 100_000 + b"numactl\0-m\0001\0") == CommandLine(("x",))


@given(
    st.lists(st.one_of(_WORDS, st.binary(max_size=20)), max_size=12), st.lists(st.tuples(_NAMES, _VALUES), max_size=6)
)
def test_any_process_declares_something_or_nothing(words: list[bytes], variables: list[tuple[bytes, bytes]]) -> None:
    found = given_in(b"\0".join(words))
    environment = environment_in(b"\0".join(name + b"=" + value for name, value in variables))
    told = Told(found, (found,), environment, Runtimes(frozenset({"openmp", "mpi"}), 2))
    for one in declarations(told, _HERE):
        assert one.has_placement or one.launcher == "ray"


@given(st.lists(st.text(max_size=80), max_size=3), st.binary(max_size=80))
def test_any_unit_and_configuration_is_read_or_refused(files: list[str], config: bytes) -> None:
    told = Told(unit=units.settings_in(files))
    assert len(declarations(told, _HERE)) <= 1
    try:
        assert units.memory_policy_in(config) == {}
    except ParseError:
        return


@given(st.text(alphabet="bindprefmany():0123456789-,=|static ", max_size=30))
def test_any_policy_is_read_or_refused(text: str) -> None:
    try:
        found = policy.parse(text)
    except ParseError:
        return
    assert found.kind is not None or text.startswith("default")


def test_policies_of_the_kernel_are_read() -> None:
    assert policy.parse("default") == (None, NodeSet())
    assert policy.parse("bind=static|balancing:0,2") == ("bind", NodeSet.of(0, 2))
    assert policy.parse("prefer (many):0-1") == ("preferred-many", NodeSet.of(0, 1))
    assert policy.parse("weighted interleave:0-3") == ("weighted-interleave", NodeSet.parse("0-3"))
