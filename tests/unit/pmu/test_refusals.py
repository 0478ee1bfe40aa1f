"""Why the kernel does not open the events: every errno has its reason and what to do."""

from __future__ import annotations

import errno

import pytest
from msgspec.structs import replace

from numaudit.pmu.choose import CorePmu, Cores, plans
from numaudit.pmu.identity import CpuIdentity
from numaudit.pmu.machine_kind import VIRTUAL_KINDS, MachineKind
from numaudit.pmu.refusals import counts_nothing, never_ran, why_not_open

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
