"""The CPUs of a machine as the CPU Manager counts them, and its policy options, in the kubelet's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelets.cpu_machines import GUEST, regular
from numaudit.containermanager.cpu.start import check_cpu_options, parse_cpu_options
from numaudit.containermanager.cpu.topology import CPUInfo, CPUOptions, CPUTopology, Group
from numaudit.containermanager.topologymanager.policy import OptionGates
from numaudit.errors import InputError
from numaudit.topology.machine import Cpu, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

NAMES = (
    "full-pcpus-only",
    "distribute-cpus-across-numa",
    "align-by-socket",
    "distribute-cpus-across-cores",
    "strict-cpu-reservation",
    "prefer-align-cpus-by-uncorecache",
)
ALPHA = OptionGates(alpha=True)
CLOSED = OptionGates(alpha=False, beta=False)


def test_every_option_is_read_by_its_name() -> None:
    assert parse_cpu_options(dict.fromkeys(NAMES, "true"), gates=ALPHA) == CPUOptions(*[True] * 6)
    for position, name in enumerate(NAMES):
        expected = CPUOptions(*[index == position for index in range(6)])
        assert parse_cpu_options({name: "1"}, gates=ALPHA) == expected
        assert parse_cpu_options({name: "0"}, gates=ALPHA) == CPUOptions()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"full-cpus-only": "true"},
            'unknown CPU Manager Policy option: "full-cpus-only"; did you mean full-pcpus-only?',
        ),
        (
            {"align-by-socket": "true"},
            'CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided',
        ),
        (
            {"full-pcpus-only": "on"},
            'bad value for option "full-pcpus-only": strconv.ParseBool: parsing "on": invalid syntax',
        ),
    ],
)
def test_a_bad_option_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_cpu_options(options)
    assert str(caught.value) == message


def test_a_beta_option_needs_its_gate_only_where_it_is_closed() -> None:
    assert parse_cpu_options({"distribute-cpus-across-numa": "t"}).distribute_cpus_across_numa
    with pytest.raises(InputError) as caught:
        parse_cpu_options({"distribute-cpus-across-numa": "t"}, gates=CLOSED)
    assert str(caught.value) == (
        'CPU Manager Policy Beta-level Options not enabled, but option "distribute-cpus-across-numa" provided'
    )


@pytest.mark.parametrize(
    ("version", "levels"),
    [
        ((1, 36), ["stable", "beta", "alpha", "alpha", "stable", "stable"]),
        ((1, 32), ["beta", "alpha", "alpha", "alpha", "alpha", "alpha"]),
        ((1, 28), ["beta", "alpha", "alpha", "unknown", "unknown", "unknown"]),
    ],
)
def test_options_ripen_from_version_to_version(version: tuple[int, int], levels: list[str]) -> None:
    def level(name: str) -> str:
        try:
            parse_cpu_options({name: "1"}, gates=CLOSED, version=version)
        except InputError as error:
            found = [one for one in ("alpha", "beta", "unknown") if one in str(error).lower()]
            assert len(found) == 1
            return found[0]
        return "stable"

    assert [level(name) for name in NAMES] == levels


CONFLICTS = [
    ("full-pcpus-only", "distribute-cpus-across-cores"),
    ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
]


def conflict(options: CPUOptions, version: tuple[int, int]) -> str | None:
    try:
        check_cpu_options(options, GUEST, topology_manager_policy="none", version=version)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize(("version", "known"), [((1, 36), 4), ((1, 32), 2), ((1, 28), 0)])
def test_more_and_more_options_exclude_each_other(version: tuple[int, int], known: int) -> None:
    for index, (one, other) in enumerate(CONFLICTS):
        options = parse_cpu_options({one: "1", other: "1"}, gates=ALPHA)
        text = f"static policy options {one} and {other} can not be used at the same time"
        assert conflict(options, version) == (text if index < known else None)


def test_the_first_conflict_of_the_kubelets_list_is_named() -> None:
    everything = CPUOptions(*[True] * 6)
    assert conflict(everything, (1, 36)) == (
        "static policy options full-pcpus-only and distribute-cpus-across-cores can not be used at the same time"
    )


def test_sockets_cannot_be_aligned_under_single_numa_node() -> None:
    with pytest.raises(InputError) as caught:
        check_cpu_options(CPUOptions(align_by_socket=True), GUEST, topology_manager_policy="single-numa-node")
    assert str(caught.value) == (
        "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"
    )


def test_sockets_cannot_be_aligned_where_there_are_more_of_them_than_nodes() -> None:
    machine = regular(sockets=2, nodes=1, cores=1, threads=1)
    check_cpu_options(CPUOptions(align_by_socket=True), machine, topology_manager_policy="restricted")
    one_node = type(machine)(
        {cpu: type(info)(0, info.socket, info.core, info.uncore) for cpu, info in machine.details.items()}
    )
    with pytest.raises(InputError) as caught:
        check_cpu_options(CPUOptions(align_by_socket=True), one_node, topology_manager_policy="restricted")
    assert str(caught.value) == (
        "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
    )


@given(st.dictionaries(st.sampled_from([*NAMES, "x"]), st.text(max_size=5) | st.sampled_from(["true", "F"])))
def test_any_options_are_read_or_refused(options: dict[str, str]) -> None:
    try:
        parse_cpu_options(options, gates=ALPHA)
    except InputError as error:
        assert any(f'"{name}"' in str(error) for name in options)
    else:
        words = {"1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"}
        assert set(options.values()) <= words


def machine(*cpus: Cpu) -> Machine:
    nodes = sorted({cpu.node or 0 for cpu in cpus})
    return Machine(
        tuple(Node(id_, CpuSet.from_ids(cpu.id for cpu in cpus if (cpu.node or 0) == id_)) for id_ in nodes), cpus
    )


def test_a_core_is_named_by_its_lowest_thread() -> None:
    topology = CPUTopology.from_machine(
        machine(
            *(
                Cpu(id_, node=0, socket=0, core=7 + id_ % 2, siblings=CpuSet.of(id_ % 2, id_ % 2 + 2), l3_cache=5)
                for id_ in range(4)
            )
        )
    )
    assert topology.details[3] == CPUInfo(node=0, socket=0, core=1, uncore=5)
    assert (topology.num_cpus, topology.num_cores, topology.cpus_per_core) == (4, 2, 2)


def test_a_core_without_a_last_level_cache_takes_its_socket_for_it() -> None:
    topology = CPUTopology.from_machine(machine(Cpu(0, node=0, socket=3), Cpu(1, node=0, socket=3, l3_cache=9)))
    assert [topology.details[cpu].uncore for cpu in (0, 1)] == [3, 9]


def test_the_first_cache_of_a_cores_threads_counts_for_all_of_them() -> None:
    both = CpuSet.of(0, 1)
    topology = CPUTopology.from_machine(
        machine(
            Cpu(0, node=0, socket=0, siblings=both, l3_cache=4), Cpu(1, node=0, socket=0, siblings=both, l3_cache=6)
        )
    )
    assert topology.details[1].uncore == 4


def test_nodes_without_cpus_do_not_count() -> None:
    cpus = (Cpu(0, node=0, socket=0), Cpu(1, node=2, socket=0))
    with_memory_only = Machine((Node(0, CpuSet.of(0)), Node(1), Node(2, CpuSet.of(1))), cpus)
    topology = CPUTopology.from_machine(with_memory_only)
    assert topology.nodes == NodeSet.of(0, 2)
    assert topology.num_numa_nodes == 2


def test_threads_per_core_is_an_average_on_a_hybrid_machine() -> None:
    details = {cpu: CPUInfo(0, 0, cpu // 2 * 2 if cpu < 4 else cpu, 0) for cpu in range(8)}
    topology = CPUTopology(details)
    assert (topology.num_cores, topology.cpus_per_core) == (6, 1)


def test_a_core_with_threads_in_two_nodes_counts_twice() -> None:
    topology = CPUTopology({0: CPUInfo(0, 0, 0, 0), 1: CPUInfo(1, 0, 0, 0)})
    assert (topology.num_cores, topology.cpus_per_core) == (2, 1)
    assert topology.groups_of(Group.CORE, CpuSet.of(1)) == {0}


def test_a_kernel_without_numa_has_one_node_and_one_socket() -> None:
    topology = CPUTopology.from_machine(machine(Cpu(0, node=None), Cpu(1, node=None)))
    assert (topology.nodes, topology.num_sockets) == (NodeSet.of(0), 1)


def test_a_cpu_whose_node_alone_is_unknown_is_refused() -> None:
    with pytest.raises(InputError, match="NUMA node of CPU 1 is not known"):
        CPUTopology.from_machine(machine(Cpu(0, node=0), Cpu(1, node=None)))


def test_a_machine_without_cpus_is_refused_in_the_kubelets_words() -> None:
    with pytest.raises(InputError, match="could not detect number of cpus"):
        CPUTopology.from_machine(Machine((Node(0),)))


def test_a_core_is_what_core_id_and_socket_say_within_a_node_whatever_the_siblings_are() -> None:
    pair = {0: CpuSet.of(0, 1), 1: CpuSet.of(0, 1), 2: CpuSet.of(2, 3), 3: CpuSet.of(2, 3)}
    topology = CPUTopology.from_machine(
        machine(*(Cpu(id_, node=0, socket=0, core=id_, siblings=pair[id_]) for id_ in range(4)))
    )
    assert [topology.details[cpu].core for cpu in range(4)] == [0, 1, 2, 3]
    across = CPUTopology.from_machine(machine(*(Cpu(id_, node=id_ // 2, socket=0, core=id_ % 2) for id_ in range(4))))
    assert [across.details[cpu].core for cpu in range(4)] == [0, 1, 2, 3]
    joined = CPUTopology.from_machine(
        machine(*(Cpu(id_, node=0, socket=id_ % 2, core=7, siblings=CpuSet.of(id_)) for id_ in range(4)))
    )
    assert [joined.details[cpu].core for cpu in range(4)] == [0, 1, 0, 1]


def test_cpus_of_a_machine_with_several_nodes_that_are_not_known_are_not_all_on_node_0() -> None:
    unknown = Machine((Node(0, None), Node(1, None)), (Cpu(0, node=None), Cpu(1, node=None)))
    with pytest.raises(InputError, match="the CPUs of nodes 0-1 cannot be read"):
        CPUTopology.from_machine(unknown)
