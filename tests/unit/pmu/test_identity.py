"""Which CPU it is, by the texts of the kernel, and what rounds of its calibration come to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.pmu.calibration import Fingerprint, PlacementEvidence, best_of, misplaced, notes_on
from numaudit.pmu.identity import CpuIdentity, is_guest, parse_cpuinfo, parse_midr
from numaudit.topology.machine import Machine, Node

X86 = """\
processor\t: {number}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+
stepping\t: 8
flags\t\t: fpu vme {flag} sse2
bugs\t\t: spectre_v1
"""
ARM = """\
processor\t: {number}
BogoMIPS\t: 50.00
Features\t: fp asimd
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: {part}
CPU revision\t: 1
"""
POWER = """\
processor\t: 0
cpu\t\t: POWER9, altivec supported
clock\t\t: 3800.000000MHz
revision\t: 2.3 (pvr 004e 1203)

timebase\t: 512000000
platform\t: PowerNV
"""
SAPPHIRE_RAPIDS = CpuIdentity("x86_64", "GenuineIntel", 6, 143, 8)


def test_cpus_of_one_kind_are_one_identity() -> None:
    text = "\n".join(X86.format(number=number, flag="de") for number in range(3))
    assert parse_cpuinfo(text) == (SAPPHIRE_RAPIDS,)


def test_a_machine_with_big_and_little_cores_has_both_identities() -> None:
    text = "\n".join(ARM.format(number=number, part=part) for number, part in enumerate(("0xd0c", "0xd05", "0xd0c")))
    assert parse_cpuinfo(text) == (
        CpuIdentity("aarch64", implementer=0x41, part=0xD0C),
        CpuIdentity("aarch64", implementer=0x41, part=0xD05),
    )


def test_the_version_register_of_power_is_its_upper_half() -> None:
    assert parse_cpuinfo(POWER) == (CpuIdentity("ppc64le", pvr=0x4E),)


def test_midr_holds_implementer_and_part() -> None:
    assert parse_midr("0x00000000413fd0c1\n") == CpuIdentity("aarch64", implementer=0x41, part=0xD0C)
    assert parse_midr("0x00000000481fd010\n") == CpuIdentity("aarch64", implementer=0x48, part=0xD01)
    assert parse_midr("") is None


@pytest.mark.parametrize("text", ["", "processor : 0\nhart : 1\nisa : rv64imafdc\n", "vendor_id"])
def test_a_cpu_of_another_kind_has_no_identity(text: str) -> None:
    assert parse_cpuinfo(text) == ()


def test_a_field_that_is_missing_is_unknown() -> None:
    (cpu,) = parse_cpuinfo("vendor_id : GenuineIntel\ncpu family : 6\nmodel : unknown\n")
    assert cpu == CpuIdentity("x86_64", "GenuineIntel", 6)
    assert str(cpu) == "GenuineIntel family 0x6 model unknown stepping unknown"


def test_a_guest_shows_the_flag_hypervisor() -> None:
    assert is_guest(X86.format(number=0, flag="hypervisor"))
    assert not is_guest(X86.format(number=0, flag="hypervisors"))
    assert not is_guest(ARM.format(number=0, part="0xd0c"))


@given(st.text())
def test_any_text_parses_or_has_no_identity(text: str) -> None:
    assert isinstance(parse_cpuinfo(text), tuple)
    assert isinstance(is_guest(text), bool)
    parse_midr(text)


@given(st.text(alphabet="0123456789abcdefx \t"), st.sampled_from(["vendor_id", "model", "CPU part", "revision"]))
def test_any_value_of_a_field_parses(value: str, name: str) -> None:
    parse_cpuinfo(f"vendor_id : x\nCPU implementer : 0x41\n{name} : {value}\n")


_TWO = Machine((Node(0, distances={0: 10, 1: 21}), Node(1, distances={0: 21, 1: 10})))


def test_the_best_round_is_the_lowest_and_stable_when_the_best_three_agree() -> None:
    figure = best_of([150.0, 101.0, 100.0, 102.0], within=0.02)
    assert (figure.value, figure.rounds, figure.spread, figure.is_stable) == (100.0, 4, 0.02, True)
    assert not best_of([100.0, 101.0, 110.0], within=0.02).is_stable


def test_of_bandwidths_the_best_round_is_the_highest() -> None:
    assert best_of([50.0, 99.0, 100.0, 98.0], within=0.03, highest=True).value == 100.0


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=2))
def test_fewer_than_three_rounds_are_never_stable(values: list[float]) -> None:
    assert not best_of(values, within=1e9).is_stable


@given(st.lists(st.floats(1, 1e6), min_size=1), st.floats(1, 1e6))
def test_another_round_never_makes_a_latency_worse(values: list[float], another: float) -> None:
    assert best_of([*values, another], 0.02).value <= best_of(values, 0.02).value


def test_one_page_on_another_node_takes_the_measurement_away() -> None:
    evidence = PlacementEvidence({1: 511, 0: 1}, 0, (0,), 0)
    assert misplaced(evidence, 0, 1) == "of 512 pages that belong on node 1, 1 on node 0"


def test_pages_on_no_node_take_the_measurement_away() -> None:
    assert misplaced(PlacementEvidence({1: 500}, 12, (0,), 0), 0, 1) == "of 512 pages that belong on node 1, 12 on none"


def test_a_cpu_of_another_node_takes_the_measurement_away() -> None:
    assert misplaced(PlacementEvidence({1: 512}, 0, (0, 2), 0), 0, 1) == "it ran on CPUs of node 2, not of node 0"


def test_a_measurement_in_its_place_stands() -> None:
    assert misplaced(PlacementEvidence({1: 512}, 0, (0,), 0), 0, 1) is None


def test_equal_pairs_say_that_the_machine_has_no_far_memory() -> None:
    (note,) = notes_on({(0, 0): 100.0, (0, 1): 103.0, (1, 0): 101.0, (1, 1): 100.0})
    assert "equal within 5 %" in note


def test_a_remote_pair_that_is_faster_than_local_ones_is_suspect() -> None:
    (note,) = notes_on({(0, 0): 100.0, (0, 1): 60.0, (1, 0): 160.0, (1, 1): 100.0})
    assert "faster than every local one" in note


def test_one_node_has_no_figure_for_remote_memory() -> None:
    (note,) = notes_on({(0, 0): 100.0})
    assert "no figure for remote memory" in note


def test_a_machine_with_far_memory_needs_no_note() -> None:
    assert notes_on({(0, 0): 80.0, (0, 1): 130.0, (1, 0): 131.0, (1, 1): 81.0}) == ()


def test_a_machine_is_of_its_own_kind() -> None:
    kind = Fingerprint.of(_TWO, ["a CPU"])
    assert kind.differs_from(Fingerprint.of(_TWO, ["a CPU"])) is None


def test_another_cpu_other_nodes_and_other_distances_make_another_kind_of_machine() -> None:
    here = Fingerprint.of(_TWO, ["a CPU"])
    assert Fingerprint.of(_TWO, ["an old CPU"]).differs_from(here) == "its CPU is an old CPU, here it is a CPU"
    one = Machine((Node(0, distances={0: 10}),))
    assert Fingerprint.of(one, ["a CPU"]).differs_from(here) == "its nodes are 0, here they are 0-1"
    far = Machine((Node(0, distances={0: 10, 1: 40}), Node(1, distances={0: 40, 1: 10})))
    assert Fingerprint.of(far, ["a CPU"]).differs_from(here) == "its distances between nodes are not those here"
