"""Which CPU it is, by the texts of the kernel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.pmu.identity import CpuIdentity, is_guest, parse_cpuinfo, parse_midr

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
