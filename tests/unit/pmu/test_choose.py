"""Which events count local and remote accesses on a machine, what is made of their counts, and what these cost."""

from __future__ import annotations

import errno

import pytest
from msgspec.structs import replace

from numaudit.pmu.choose import (
    Accesses,
    CannotCount,
    CorePmu,
    Cores,
    Plan,
    counts_nothing,
    first_that_opens,
    never_ran,
    plans,
    scaled,
    why_not_open,
)
from numaudit.pmu.families import PublishedLatency, families
from numaudit.pmu.identity import VIRTUAL_KINDS, CpuIdentity, MachineKind
from numaudit.pmu.stall import ASSUMED_LOCAL_NS, ASSUMED_RATIO, Bounds, LatencyTable, penalty, stall

CPU = CorePmu("cpu", 4)
SPR = CpuIdentity("x86_64", "GenuineIntel", 6, 0x8F, 8)
SKX = CpuIdentity("x86_64", "GenuineIntel", 6, 0x55, 4)
ICX = CpuIdentity("x86_64", "GenuineIntel", 6, 0x6A, 6)
SRF = CpuIdentity("x86_64", "GenuineIntel", 6, 0xAF, 3)
ZEN1 = CpuIdentity("x86_64", "AuthenticAMD", 0x17, 1, 2)
GENOA = CpuIdentity("x86_64", "AuthenticAMD", 0x19, 0x11, 1)
NEOVERSE_N1 = CpuIdentity("aarch64", implementer=0x41, part=0xD0C)
ARM_PMU = CorePmu("armv8_pmuv3_0", 10, frozenset({"ll_cache_miss_rd", "remote_access", "cpu_cycles"}))
POWER9 = CpuIdentity("ppc64le", pvr=0x4E)


def _two_sockets(*cpus: CpuIdentity, pmu: CorePmu = CPU) -> Cores:
    return Cores(cpus, (pmu,), nodes=2, sockets=2)


def _clustered(cpu: CpuIdentity, pmu: CorePmu = CPU) -> Cores:
    return Cores((cpu,), (pmu,), nodes=4, sockets=2)


def _configs(plan: Plan) -> list[list[tuple[int, int]]]:
    return [[(event.config, event.config1) for event in group] for group in plan.groups]


def test_the_pair_of_lines_comes_before_the_pair_of_loads() -> None:
    best, second = plans(_two_sockets(SPR))
    assert _configs(best) == [[(0x12A, 0x104004477), (0x12B, 0x730004477)]]
    assert _configs(second) == [[(0x1D3, 0), (0x2D3, 0)]]
    assert (best.type, best.set.unit, second.set.unit) == (4, "lines", "loads")
    assert best.accesses([30.0, 10.0]) == Accesses(30.0, 10.0)


def test_with_sub_numa_clusters_the_far_cluster_is_remote_and_loads_are_never_counted_alone() -> None:
    (plan,) = plans(_clustered(SPR))
    local, remote, socket = (0x12A, 0x104004477), (0x12B, 0x730004477), (0x12A, 0x70C004477)
    assert _configs(plan) == [[local, remote], [local, socket]]
    assert plan.accesses([100.0, 30.0, 100.0, 150.0]) == Accesses(100.0, 80.0)


def test_noise_of_a_difference_makes_no_count_negative() -> None:
    (plan,) = plans(_clustered(SPR))
    assert plan.accesses([100.0, 5.0, 100.0, 90.0]) == Accesses(100.0, 0.0)


def test_a_mask_that_has_the_far_cluster_in_it_needs_no_difference() -> None:
    (plan,) = plans(_clustered(SKX))
    assert _configs(plan) == [[(0x1B7, 0x604000491), (0x1BB, 0x63B800491)]]


def test_clusters_that_no_event_tells_apart_are_not_counted() -> None:
    with pytest.raises(CannotCount, match="Sierra Forest: sockets with several nodes"):
        plans(_clustered(SRF))
    assert len(plans(_two_sockets(SRF))) == 2


def test_amd_tells_the_nodes_of_a_socket_apart_by_itself() -> None:
    best, second = plans(_clustered(GENOA))
    assert _configs(best) == [[(0x844, 0), (0x4044, 0)]]
    assert _configs(second) == [[(0x843, 0), (0x4043, 0)]]


def test_the_first_zen_adds_what_its_prefetcher_fetched() -> None:
    best = plans(_two_sockets(ZEN1))[0]
    assert _configs(best) == [[(0x843, 0), (0x85A, 0), (0x4043, 0), (0x405A, 0)]]
    assert best.accesses([1.0, 10.0, 100.0, 1000.0]) == Accesses(11.0, 1100.0)


def test_where_the_first_count_is_the_total_the_remote_one_is_taken_from_it() -> None:
    (plan,) = plans(_two_sockets(NEOVERSE_N1, pmu=ARM_PMU))
    assert _configs(plan) == [[(0x37, 0), (0x31, 0)]]
    assert plan.type == 10
    assert plan.accesses([100.0, 30.0]) == Accesses(70.0, 30.0)
    assert plan.accesses([10.0, 30.0]) == Accesses(0.0, 30.0)


def test_an_arm_pmu_without_the_events_in_its_folder_does_not_count_them() -> None:
    lacking = replace(ARM_PMU, events=ARM_PMU.events - {"remote_access"})
    with pytest.raises(CannotCount, match="armv8_pmuv3_0 does not have remote_access"):
        plans(_two_sockets(NEOVERSE_N1, pmu=lacking))


def test_an_event_that_the_pmu_lacks_is_the_first_reason_also_where_sockets_have_several_nodes() -> None:
    lacking = replace(ARM_PMU, events=frozenset({"cpu_cycles"}))
    with pytest.raises(CannotCount, match="does not have ll_cache_miss_rd and remote_access"):
        plans(_clustered(NEOVERSE_N1, lacking))


def test_a_virtual_machine_with_several_nodes_for_a_socket_has_another_remedy_than_a_physical_one() -> None:
    for cores, remedy in (
        (_clustered(SRF), "in the firmware"),
        (replace(_clustered(SRF), is_guest=True), "one socket"),
    ):
        with pytest.raises(CannotCount, match="do not tell apart") as caught:
            plans(cores)
        assert remedy in caught.value.hint


def test_power_adds_both_kinds_of_remote_chips() -> None:
    (plan,) = plans(_two_sockets(POWER9))
    assert plan.accesses([5.0, 20.0, 300.0]) == Accesses(5.0, 320.0)


def test_a_count_that_never_ran_is_no_data() -> None:
    best = plans(_two_sockets(SPR))[0]
    assert best.accesses([30.0, None]) is None


@pytest.mark.parametrize(
    ("cores", "message"),
    [
        (Cores((SPR,), (CPU,), nodes=1, sockets=1), "with one node all memory is local"),
        (Cores((), (CPU,), 2, 2), "does not say which CPU"),
        (
            _two_sockets(replace(SPR, model=0x9E)),
            r"does not have this CPU \(GenuineIntel family 0x6 model 0x9e stepping 8\)",
        ),
        (_two_sockets(CpuIdentity("aarch64", implementer=0xC0, part=0xAC3)), "AmpereOne: its cores have no events"),
        (_two_sockets(SPR, SKX), "CPUs of several families"),
        (Cores((SPR,), (), 2, 2), "this machine shows no PMU"),
        (Cores((SPR,), (), 2, 2, kind=MachineKind("QEMU", "pc")), r"virtual machine \(QEMU pc\).*pmu=on"),
        (Cores((SPR,), (), 2, 2, is_guest=True), "virtual machine, and its hypervisor shows no PMU"),
        (Cores((SPR,), (CorePmu("cpu_core", 4), CorePmu("cpu_atom", 8)), 2, 2), "cores of several kinds"),
    ],
)
def test_a_machine_that_cannot_count_says_why(cores: Cores, message: str) -> None:
    with pytest.raises(CannotCount, match=message) as caught:
        plans(cores)
    assert caught.value.hint


@pytest.mark.parametrize("sockets", [1, 2])
@pytest.mark.parametrize("cpu", [SPR, SKX, GENOA, ZEN1, ICX], ids=str)
def test_no_group_has_more_masks_than_a_core_has_registers(cpu: CpuIdentity, sockets: int) -> None:
    for plan in plans(Cores((cpu,), (CPU,), nodes=2, sockets=sockets)):
        assert all(len({event.config1 for event in group} - {0}) <= 2 for group in plan.groups)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENXIO])
def test_a_mask_that_is_refused_leads_to_the_next_set(code: int) -> None:
    tried: list[str] = []

    def opens(plan: Plan) -> str:
        tried.append(plan.set.id)
        if plan.set.id == "offcore_reads":
            raise OSError(code, "refused")
        return "open"

    plan, opened = first_that_opens(plans(_two_sockets(SPR)), opens)
    assert (plan.set.id, opened, tried) == ("retired_loads", "open", ["offcore_reads", "retired_loads"])


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EACCES, errno.EPERM, errno.EMFILE, errno.EBUSY])
def test_a_refusal_that_every_set_would_meet_is_not_tried_again(code: int) -> None:
    tried: list[str] = []

    def opens(plan: Plan) -> None:
        tried.append(plan.set.id)
        raise OSError(code, "refused")

    with pytest.raises(OSError, match="refused"):
        first_that_opens(plans(_two_sockets(SPR)), opens)
    assert tried == ["offcore_reads"]


@pytest.mark.parametrize(
    ("count", "enabled", "running", "expected"),
    [(100, 10, 5, 200.0), (100, 10, 10, 100.0), (0, 10, 5, 0.0), (100, 10, 0, None), (0, 0, 0, None)],
)
def test_a_count_is_scaled_to_the_time_it_was_enabled_for(
    count: int, enabled: int, running: int, expected: float | None
) -> None:
    assert scaled(count, enabled, running) == expected


PHYSICAL = Cores((CpuIdentity("x86_64", "GenuineIntel", 6, 0x8F, 8),), (CorePmu("cpu", 4),), nodes=2, sockets=2)
GUEST = replace(PHYSICAL, is_guest=True, kind=MachineKind("QEMU", "Standard PC (Q35 + ICH9, 2009)"))
PLAN = plans(PHYSICAL)[-1]


@pytest.mark.parametrize(
    ("code", "word", "message"),
    [
        (errno.ENOENT, "no-pmu", "shows no PMU of its cores"),
        (errno.ENODEV, "no-pmu", "shows no PMU of its cores"),
        (errno.EOPNOTSUPP, "no-pmu", "shows no PMU of its cores"),
        (errno.EACCES, "no-permission", "run as root, or with the capability PERFMON"),
        (errno.EPERM, "no-permission", "run as root, or with the capability PERFMON"),
        (errno.EMFILE, "too-many-files", "raise the limit of open files"),
        (errno.ENFILE, "too-many-files", "raise the limit of open files"),
        (errno.EBUSY, "busy", "end other profilers"),
        (errno.EINVAL, "refused", r"refuses MEM_LOAD_L3_MISS_RETIRED.LOCAL_DRAM and .*Sapphire Rapids \(EINVAL\)"),
        (errno.ENXIO, "refused", r"\(ENXIO\)"),
        (9999, "refused", r"\(9999\)"),
    ],
)
def test_every_refusal_has_a_reason_and_says_what_to_do(code: int, word: str, message: str) -> None:
    with pytest.raises(type(why_not_open(code, PHYSICAL, PLAN)), match=message) as caught:
        raise why_not_open(code, PHYSICAL, PLAN)
    assert caught.value.word == word
    assert caught.value.hint


def test_in_a_guest_it_is_the_hypervisor_that_shows_no_pmu() -> None:
    absent = why_not_open(errno.ENOENT, GUEST, PLAN)
    assert (
        absent.text
        == "this is a virtual machine (QEMU Standard PC (Q35 + ICH9, 2009)), and its hypervisor shows no PMU"
    )
    assert absent.hint == "run it with KVM and -cpu host,pmu=on"
    assert "the hypervisor does not offer them" in why_not_open(errno.ENXIO, GUEST, PLAN).text
    assert "the hypervisor filters them" in counts_nothing(GUEST, PLAN, 1.0).text


def test_an_event_that_counts_nothing_is_a_reason_and_no_zero() -> None:
    found = counts_nothing(PHYSICAL, PLAN, 1.0)
    assert found.text == "the events of Sapphire Rapids open, but counted nothing of a test load of 1 s"
    assert found.word == "counts-nothing"


@pytest.mark.parametrize(("watchdog", "is_named"), [(True, True), (False, False), (None, False)])
def test_the_nmi_watchdog_is_named_where_it_holds_a_counter(watchdog: bool | None, is_named: bool) -> None:
    for found in (never_ran, lambda cores: why_not_open(errno.EBUSY, cores, PLAN)):
        assert ("kernel.nmi_watchdog=0" in found(replace(PHYSICAL, nmi_watchdog=watchdog)).hint) == is_named


@pytest.mark.parametrize(
    ("vendor", "product", "title"),
    [
        ("Amazon EC2", "m6i.large", "Amazon EC2"),
        ("Amazon EC2", "m6i.metal", None),
        ("Google", "Google Compute Engine", "Google Compute Engine"),
        ("Microsoft Corporation", "Virtual Machine", "Microsoft Hyper-V or Azure"),
        ("Microsoft Corporation", "C2030", None),
        ("VMware, Inc.", "VMware7,1", "VMware"),
        ("Xen", "HVM domU", "Xen"),
        ("QEMU", "Standard PC (i440FX + PIIX, 1996)", "QEMU"),
        ("Dell Inc.", "PowerEdge R750", None),
        (None, None, None),
    ],
)
def test_the_firmware_tells_whose_virtual_machine_it_is(
    vendor: str | None, product: str | None, title: str | None
) -> None:
    kind = MachineKind(vendor, product).virtual
    assert (None if kind is None else kind.title) == title


def test_a_virtual_machine_of_an_unknown_maker_has_a_hint_too() -> None:
    assert MachineKind("OpenStack Foundation", "OpenStack Nova").hint
    assert len({kind.hint for kind in VIRTUAL_KINDS}) == len(VIRTUAL_KINDS)


SAPPHIRE_RAPIDS = next(family.latency for family in families() if family.id == "intel_spr")
HSX = next(family.latency for family in families() if family.id == "intel_hsx")
FOUR_NODES = LatencyTable(
    {(cpu, memory): 80.0 + 20.0 * abs(cpu - memory) for cpu in range(4) for memory in range(4)}, "measured here"
)


def test_ten_million_remote_loads_a_second_cost_0_81_seconds_a_second_on_sapphire_rapids() -> None:
    found = stall({0: 10e6}, penalty((0, 1), latency=SAPPHIRE_RAPIDS))
    assert found is not None
    assert (found.origin, found.share) == ("published", None)
    assert found.rate.low == found.rate.high == pytest.approx(0.81)


def test_what_was_measured_here_comes_before_what_is_published() -> None:
    table = LatencyTable({(0, 0): 90.0, (0, 1): 150.0, (1, 1): 100.0, (1, 0): 130.0}, "measured here")
    cost = penalty((0, 1), table, SAPPHIRE_RAPIDS)
    assert cost.origin == "calibrated"
    assert cost.by_cpu_node == {0: Bounds(60.0, 60.0), 1: Bounds(30.0, 30.0)}
    found = stall({0: 1e6, 1: 2e6}, cost)
    assert found is not None
    assert found.rate.high == pytest.approx(0.06 + 0.06)


def test_of_several_other_nodes_the_nearest_and_the_farthest_are_the_bounds() -> None:
    cost = penalty(range(4), FOUR_NODES)
    assert cost.by_cpu_node == {0: Bounds(20, 60), 1: Bounds(20, 40), 2: Bounds(20, 40), 3: Bounds(20, 60)}
    found = stall({0: 1e6}, cost)
    assert found is not None
    assert found.rate.low == pytest.approx(0.02)
    assert found.rate.high == pytest.approx(0.06)


def test_a_measurement_that_lacks_a_node_is_not_mixed_with_constants() -> None:
    lacking = LatencyTable({(0, 0): 90.0, (0, 1): 150.0}, "measured here")
    assert penalty((0, 1), lacking, SAPPHIRE_RAPIDS).origin == "published"
    assert penalty((0,), lacking, SAPPHIRE_RAPIDS).origin == "calibrated"


def test_a_constant_in_cycles_needs_the_clock() -> None:
    assert HSX is not None
    assert HSX.unit == "cycles"
    assert penalty((0, 1), latency=HSX).origin == "ratio"
    cost = penalty((0, 1), latency=HSX, hertz=2.5e9)
    assert (cost.origin, cost.by_cpu_node[0]) == ("published", Bounds(44.0, 44.0))


def test_of_an_unknown_cpu_wide_bounds_are_assumed() -> None:
    cost = penalty((0, 1))
    assert cost.origin == "ratio"
    assert cost.by_cpu_node[0].low == pytest.approx(30.0)
    assert cost.by_cpu_node[0].high == pytest.approx(160.0)


def test_every_published_latency_lies_within_what_is_assumed_of_unknown_cpus() -> None:
    known = [family.latency for family in families() if family.latency is not None]
    bounds = penalty((0,)).by_cpu_node[0]
    in_ns = [one for one in known if one.unit == "ns"]
    assert len(in_ns) == 5
    for one in in_ns:
        assert bounds.low <= one.remote - one.local <= bounds.high
    assert ASSUMED_LOCAL_NS[0] < ASSUMED_LOCAL_NS[1]
    assert ASSUMED_RATIO[0] < ASSUMED_RATIO[1]


def test_a_stall_is_no_longer_than_the_cpu_time() -> None:
    cost = penalty((0, 1), latency=SAPPHIRE_RAPIDS)
    found = stall({0: 100e6}, cost, cpu_rate=2.0)
    assert found is not None
    assert (found.rate, found.share) == (Bounds(2.0, 2.0), Bounds(1.0, 1.0))
    half = stall({0: 10e6}, cost, cpu_rate=1.62)
    assert half is not None
    assert half.share is not None
    assert half.share.high == pytest.approx(0.5)


def test_a_container_that_did_not_run_has_no_share() -> None:
    found = stall({}, penalty((0, 1), latency=SAPPHIRE_RAPIDS), cpu_rate=0.0)
    assert found is not None
    assert (found.rate, found.share) == (Bounds(0.0, 0.0), None)


def test_a_node_without_a_latency_has_no_cost() -> None:
    assert stall({7: 1.0}, penalty((0, 1), latency=SAPPHIRE_RAPIDS)) is None
    assert stall({7: 0.0, 0: 1e6}, penalty((0, 1), latency=SAPPHIRE_RAPIDS)) is not None


def test_lines_of_a_remote_cache_cost_by_their_own_latency() -> None:
    found = stall({0: 0.0}, penalty((0, 1), latency=SAPPHIRE_RAPIDS), remote_cache={0: 1e6})
    assert found is not None
    assert found.rate.low == pytest.approx(0.061) == found.rate.high


def test_a_remote_node_that_is_nearer_than_the_own_costs_nothing() -> None:
    table = LatencyTable({(0, 0): 100.0, (0, 1): 90.0}, "measured here")
    assert penalty((0,), table).by_cpu_node[0] == Bounds(0.0, 0.0)


def test_a_cache_as_fast_as_memory_costs_nothing() -> None:
    cost = penalty((0,), latency=PublishedLatency("ns", 100.0, 150.0, 80.0, "made up"))
    assert cost.remote_cache == 0.0
