"""The CPU Manager's policy options, in the kubelet's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelets.cpu_machines import GUEST, regular
from numaudit.containermanager.cpu.options import CPUOptions, check_cpu_options, parse_cpu_options
from numaudit.containermanager.topologymanager.policy import OptionGates
from numaudit.errors import InputError

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
