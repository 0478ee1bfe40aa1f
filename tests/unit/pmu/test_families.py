"""The table of CPU families: which CPU is in which, and every event in it compared with the layout of its registers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from numaudit.pmu.families import CpuFamily, Encoding, EventSet, families, family_of
from numaudit.pmu.identity import CpuIdentity

RESPONSE_MASKS = {
    "intel_hsx": 0x3FFFFF8FFF,
    "intel_bdx": 0x3FFFFF8FFF,
    "intel_skx": 0x3FFFFF8FFF,
    "intel_clx": 0x3FFFFF8FFF,
    "intel_icx": 0x3FFFFFBFFF,
    "intel_spr": 0x3FFFFFFFFF,
    "intel_emr": 0x3FFFFFFFFF,
    "intel_gnr": 0x3FFFFFFFFF,
    "intel_srf": 0xFF3FFFFFFFFFF,
    "intel_cwf": 0xFF3FFFFFFFFFF,
}
"""Bits of config1 that Linux 6.12 takes (extra_regs in arch/x86/events/intel/core.c); others are EINVAL."""
OFFCORE = {
    "intel_hsx": (0x1B7, 0x1BB),
    "intel_bdx": (0x1B7, 0x1BB),
    "intel_skx": (0x1B7, 0x1BB),
    "intel_clx": (0x1B7, 0x1BB),
    "intel_icx": (0x1B7, 0x1BB),
    "intel_spr": (0x12A, 0x12B),
    "intel_emr": (0x12A, 0x12B),
    "intel_gnr": (0x12A, 0x12B),
    "intel_srf": (0x1B7, 0x2B7),
    "intel_cwf": (0x1B7, 0x2B7),
}
"""The event of each of the two registers for masks, by the same source."""
HOP0 = 1 << 27
"""Response bit: memory of the same socket's other cluster."""


def _intel(model: int, stepping: int = 0) -> CpuIdentity:
    return CpuIdentity("x86_64", "GenuineIntel", 6, model, stepping)


def _amd(family: int, model: int, vendor: str = "AuthenticAMD") -> CpuIdentity:
    return CpuIdentity("x86_64", vendor, family, model, 0)


def _arm(part: int, implementer: int = 0x41) -> CpuIdentity:
    return CpuIdentity("aarch64", implementer=implementer, part=part)


def _id(cpu: CpuIdentity) -> str | None:
    family = family_of(cpu)
    return None if family is None else family.id


def _family(name: str) -> CpuFamily:
    return next(one for one in families() if one.id == name)


def _set(family: str, name: str) -> EventSet:
    return next(one for one in _family(family).sets if one.id == name)


def _pair(one: EventSet) -> tuple[tuple[int, int], tuple[int, int]]:
    (local,), (remote,) = one.local, one.remote
    return (local.config, local.config1), (remote.config, remote.config1)


def _events(family: CpuFamily) -> Iterator[Encoding]:
    for one in family.sets:
        for events in (one.local, one.remote, *one.facets.values()):
            yield from events


@pytest.mark.parametrize(
    ("cpu", "family"),
    [
        (_intel(0x3E), "intel_ivt"),
        (_intel(0x3F), "intel_hsx"),
        (_intel(0x4F), "intel_bdx"),
        (_intel(0x55, 4), "intel_skx"),
        (_intel(0x55, 7), "intel_clx"),
        (_intel(0x55, 11), "intel_clx"),
        (_intel(0x6A), "intel_icx"),
        (_intel(0x6C), "intel_icx"),
        (_intel(0x8F), "intel_spr"),
        (_intel(0xCF), "intel_emr"),
        (_intel(0xAD), "intel_gnr"),
        (_intel(0xAE), "intel_gnr"),
        (_intel(0xAF), "intel_srf"),
        (_intel(0xDD), "intel_cwf"),
        (_amd(0x17, 0x01), "amd_zen1"),
        (_amd(0x17, 0x2F), "amd_zen1"),
        (_amd(0x18, 0x00, "HygonGenuine"), "amd_zen1"),
        (_amd(0x17, 0x31), "amd_zen2"),
        (_amd(0x19, 0x01), "amd_zen3"),
        (_amd(0x19, 0x21), "amd_zen3"),
        (_amd(0x19, 0x30), "amd_zen4"),
        (_amd(0x19, 0x11), "amd_zen4"),
        (_amd(0x19, 0xA0), "amd_zen4"),
        (_amd(0x1A, 0x02), "amd_zen5"),
        (_arm(0xD0C), "arm_neoverse_n1"),
        (_arm(0xD40), "arm_neoverse_v1"),
        (_arm(0xD49), "arm_neoverse_n2"),
        (_arm(0xD4F), "arm_neoverse_v2"),
        (_arm(0xD8E), "arm_neoverse_n3"),
        (_arm(0xD84), "arm_neoverse_v3"),
        (_arm(0xAC3, 0xC0), "arm_ampereone"),
        (_arm(0xAC4, 0xC0), "arm_ampereone"),
        (_arm(0xD01, 0x48), "arm_kunpeng920"),
        (CpuIdentity("ppc64le", pvr=0x4B), "ibm_power8"),
        (CpuIdentity("ppc64le", pvr=0x4E), "ibm_power9"),
        (CpuIdentity("ppc64le", pvr=0x80), "ibm_power10"),
    ],
    ids=str,
)
def test_a_cpu_is_in_its_family(cpu: CpuIdentity, family: str) -> None:
    assert _id(cpu) == family


@pytest.mark.parametrize(
    "cpu",
    [
        _intel(0x9E),
        CpuIdentity("x86_64", "GenuineIntel", 6, 0x55),
        CpuIdentity("x86_64", "GenuineIntel", 15, 0x8F, 8),
        CpuIdentity("x86_64", "AuthenticAMD", 6, 0x8F, 8),
        _amd(0x16, 0x30),
        _amd(0x19, 0x01, "HygonGenuine"),
        _arm(0xD0C, 0x48),
        _arm(0xD03),
        CpuIdentity("ppc64le", pvr=0x82),
        CpuIdentity("riscv64"),
    ],
    ids=str,
)
def test_a_cpu_that_is_not_in_the_table_has_no_family(cpu: CpuIdentity) -> None:
    assert family_of(cpu) is None


def test_no_cpu_is_in_two_families() -> None:
    cpus = [_intel(model, stepping) for model in range(256) for stepping in range(16)]
    cpus += [_amd(family, model) for family in (0x17, 0x19, 0x1A) for model in range(256)]
    cpus += [_arm(part, implementer) for part in range(0x1000) for implementer in (0x41, 0x48, 0xC0)]
    cpus += [CpuIdentity("ppc64le", pvr=pvr) for pvr in range(256)]
    matches = [one for family in families() for one in family.match]
    assert [cpu for cpu in cpus if sum(one.fits(cpu) for one in matches) > 1] == []


def test_every_zen_has_a_family() -> None:
    zens = [_amd(family, model) for family in (0x17, 0x19, 0x1A) for model in range(256)]
    assert [cpu for cpu in zens if family_of(cpu) is None] == []


def test_the_table_has_each_family_once_and_its_sets_by_rank() -> None:
    assert len(families()) == 27
    assert len({family.id for family in families()}) == 27
    for family in families():
        assert [one.rank for one in family.sets] == list(range(1, len(family.sets) + 1))
        assert all(one.source and one.says and one.local and one.remote for one in family.sets)


@pytest.mark.parametrize(
    ("family", "name", "local", "remote"),
    [
        ("intel_spr", "offcore_reads", (0x12A, 0x104004477), (0x12B, 0x730004477)),
        ("intel_emr", "offcore_reads", (0x12A, 0x104004477), (0x12B, 0x730004477)),
        ("intel_gnr", "offcore_reads", (0x12A, 0x104004477), (0x12B, 0x730004477)),
        ("intel_icx", "offcore_reads", (0x1B7, 0x104000477), (0x1BB, 0x730000477)),
        ("intel_hsx", "offcore_reads", (0x1B7, 0x6004007F7), (0x1BB, 0x63F8007F7)),
        ("intel_bdx", "offcore_reads", (0x1B7, 0x6040007F7), (0x1BB, 0x63BC007F7)),
        ("intel_skx", "offcore_reads", (0x1B7, 0x604000491), (0x1BB, 0x63B800491)),
        ("intel_clx", "offcore_reads", (0x1B7, 0x6040007F7), (0x1BB, 0x63B8007F7)),
        ("intel_srf", "offcore_demand_reads", (0x1B7, 0x184000001), (0x2B7, 0x730000001)),
        ("intel_cwf", "offcore_demand_reads", (0x1B7, 0x784000001), (0x2B7, 0x730000001)),
        ("intel_ivt", "retired_loads", (0x3D3, 0), (0xCD3, 0)),
        ("intel_hsx", "retired_loads", (0x1D3, 0), (0x4D3, 0)),
        ("intel_bdx", "retired_loads", (0x1D3, 0), (0x4D3, 0)),
        *(
            (f"intel_{name}", "retired_loads", (0x1D3, 0), (0x2D3, 0))
            for name in ["skx", "clx", "icx", "spr", "emr", "gnr", "srf", "cwf"]
        ),
        ("amd_zen1", "fills_demand", (0x843, 0), (0x4043, 0)),
        ("amd_zen2", "fills_demand", (0x843, 0), (0x4043, 0)),
        *((f"amd_zen{number}", "fills_any", (0x844, 0), (0x4044, 0)) for number in (3, 4, 5)),
        *((f"amd_zen{number}", "fills_demand", (0x843, 0), (0x4043, 0)) for number in (3, 4, 5)),
        *(
            (f"arm_neoverse_{name}", "llc_miss_minus_remote", (0x37, 0), (0x31, 0))
            for name in ["n1", "v1", "n2", "v2", "n3", "v3"]
        ),
    ],
)
def test_a_pair_is_encoded_as_published(
    family: str, name: str, local: tuple[int, int], remote: tuple[int, int]
) -> None:
    assert _pair(_set(family, name)) == (local, remote)


def test_an_event_of_power10_is_encoded_as_published() -> None:
    (local,) = _set("ibm_power10", "data_from").local
    assert local.config == 0x094040000000C040


@pytest.mark.parametrize("family", sorted(RESPONSE_MASKS))
def test_every_mask_has_only_bits_that_the_kernel_takes(family: str) -> None:
    masked = [event for event in _events(_family(family)) if event.config1]
    assert masked
    assert [event for event in masked if event.config1 & ~RESPONSE_MASKS[family]] == []


@pytest.mark.parametrize("family", sorted(OFFCORE))
def test_the_two_sides_of_a_pair_use_both_registers_for_masks(family: str) -> None:
    pairs = [one for one in _family(family).sets if one.local[0].config1]
    assert [tuple(event.config for event in (*one.local, *one.remote)) for one in pairs] == [OFFCORE[family]]
    assert {event.config for event in _events(_family(family)) if event.config1} <= set(OFFCORE[family])


def test_only_a_mask_needs_config1_and_only_on_intel() -> None:
    for family in families():
        for event in _events(family):
            assert bool(event.config1) == (event.config in OFFCORE.get(family.id, ())), (family.id, event)


def test_the_far_cluster_is_in_the_remote_count_where_its_mask_has_the_bit() -> None:
    for family in families():
        if family.match[0].vendor == "GenuineIntel":
            for one in family.sets:
                has_bit = all(event.config1 & HOP0 for event in one.remote)
                assert (one.far_cluster == "remote") == has_bit, (family.id, one.id)
                assert (one.far_cluster == "socket_minus_local") == ("local_socket_dram" in one.facets)


def test_what_all_of_a_socket_gave_includes_what_the_own_cluster_gave() -> None:
    for family in families():
        for one in family.sets:
            for whole in one.facets.get("local_socket_dram", ()):
                assert one.local[0].config1 & ~whole.config1 == 0
                assert whole.config1 & HOP0


def test_the_sets_of_a_family_come_by_their_rank() -> None:
    for family in families():
        assert [one.rank for one in family.sets] == sorted(one.rank for one in family.sets)
