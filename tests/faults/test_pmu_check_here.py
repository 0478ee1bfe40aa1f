"""The doctor's trial of the PMU against this host's own kernel. Software events stand in for those of a CPU."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from hosts.cores import NO_SUCH_PMU, cpuinfo, host_of
from made_up.plans import open_events
from numaudit.doctor.sources import check_pmu, count_a_load
from numaudit.kernel.cores import core_pmus
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import perf_event
from numaudit.kernel.tracing.perf_event import Event
from numaudit.pmu.choose import CannotCount, CorePmu, Cores, Plan, plans
from numaudit.pmu.families import Encoding
from numaudit.pmu.identity import CpuIdentity
from numaudit.probes.counters.plan_events import PlanEvents
from processes.agent_process import PATIENCE

pytestmark = pytest.mark.root

SOFTWARE, RAW = 1, 4
CPU_CLOCK, TASK_CLOCK, PAGE_FAULTS, CONTEXT_SWITCHES, ALIGNMENT_FAULTS, EMULATION_FAULTS, CGROUP_SWITCHES = (
    0, 1, 2, 3, 7, 8, 11,
)  # fmt: skip
OPENS, DOES_NOT = Encoding("opens", PAGE_FAULTS), Encoding("does not", 4711)
CORES = Cores((CpuIdentity("x86_64", "GenuineIntel", 6, 0x8F, 8),), (CorePmu("cpu", RAW),), nodes=2, sockets=2)


def _plan(*configs: int) -> Plan:
    """One that counts software events, the first as local and the others as remote."""
    events = tuple(Encoding(f"software {config}", config) for config in configs)
    rest = (1,) * (len(configs) - 1)
    return replace(plans(CORES)[-1], type=SOFTWARE, groups=(events,), local=(1, *(0,) * len(rest)), remote=(0, *rest))


def _own_cpu() -> int:
    return min(os.sched_getaffinity(0))


def _count(plan: Plan) -> None:
    events = PlanEvents.open(plan, _own_cpu())
    try:
        count_a_load(CORES, plan, events, _own_cpu())
    finally:
        events.close()


def test_a_load_that_the_events_count_is_noticed_on_all_its_cpus_again() -> None:
    before = os.sched_getaffinity(0)
    _count(_plan(PAGE_FAULTS, TASK_CLOCK))
    assert os.sched_getaffinity(0) == before


def test_events_that_open_and_count_nothing_are_no_source() -> None:
    with pytest.raises(CannotCount, match="open, but counted nothing of a test load") as caught:
        _count(_plan(ALIGNMENT_FAULTS, EMULATION_FAULTS))
    assert caught.value.word == "counts-nothing"


@pytest.mark.parametrize("groups", [((OPENS,), (DOES_NOT,)), ((OPENS, DOES_NOT),)], ids=["group", "member"])
def test_a_plan_of_which_one_event_is_refused_leaves_no_file_open(groups: tuple[tuple[Encoding, ...], ...]) -> None:
    before = open_events()
    with pytest.raises(OSError, match="perf_event_open"):
        PlanEvents.open(replace(_plan(PAGE_FAULTS), groups=groups), _own_cpu())
    assert open_events() == before


def test_events_of_a_group_are_counted_for_the_same_time() -> None:
    leader, member = perf_event.open_group([Event(SOFTWARE, PAGE_FAULTS), Event(SOFTWARE, CPU_CLOCK)], cpu=0)
    try:
        assert perf_event.read_group(leader) == (0, 0, (0, 0))
        perf_event.enable(leader)
        found = perf_event.read_group(leader)
    finally:
        os.close(leader)
        os.close(member)
    assert found.enabled == found.running > 0
    assert len(found.counts) == 2 and found.counts[1] > 0


def test_a_pmu_that_the_kernel_does_not_drive_is_absent(tmp_path: Path) -> None:
    with pytest.raises(CannotCount, match="this machine shows no PMU of its cores") as caught:
        check_pmu(host_of(tmp_path, cpuinfo(0x8F), pmu=NO_SUCH_PMU), under_load=True)
    assert caught.value.word == "no-pmu"


def test_a_user_without_rights_is_told_which_he_lacks() -> None:
    program = (
        "import sys; from pathlib import Path; from numaudit.doctor.sources import check_pmu; "
        "from numaudit.kernel.host import Host; check_pmu(Host(Path(sys.argv[1])), under_load=True)"
    )
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        host_of(Path(name), cpuinfo(0x8F), pmu=SOFTWARE)
        done = subprocess.run(
            [sys.executable, "-c", program, name],
            capture_output=True, text=True, user=65534, group=65534, check=False, timeout=PATIENCE, cwd=name,
        )  # fmt: skip
    assert (
        "CannotCount: no right to count events of all tasks; run as root, or with the capability PERFMON" in done.stderr
    )


def test_raw_events_open_only_where_a_pmu_of_the_cores_is_listed() -> None:
    try:
        os.close(perf_event.open_event(Event(RAW, 0x3C), cpu=_own_cpu()))
        opens = True
    except OSError as error:
        assert error.errno == errno.ENOENT
        opens = False
    assert opens == bool(core_pmus(Host()))


@pytest.mark.parametrize("config", [CPU_CLOCK, CONTEXT_SWITCHES, CGROUP_SWITCHES])
def test_software_events_need_no_pmu(config: int) -> None:
    os.close(perf_event.open_event(Event(SOFTWARE, config), cpu=_own_cpu()))


def test_an_event_of_a_cgroup_is_of_one_cpu() -> None:
    folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(OSError, match="perf_event_open") as caught:
            perf_event.open_event(Event(SOFTWARE, CPU_CLOCK), cpu=-1, cgroup=folder)
    finally:
        os.close(folder)
    assert caught.value.errno == errno.EINVAL
