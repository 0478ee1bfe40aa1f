"""Hints of the static CPU Manager. Recorded = seen in the log of a real kubelet (1.36.2, four nodes of two CPUs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelets.cpu_machines import EIGHT_CORES, GUEST, cpus_of, regular_machines, topologies
from numaudit.containermanager.cpu.hints import (
    CPUContainer,
    CPUPod,
    cpu_pod,
    generate_hints,
    hints_for_container,
    hints_for_pod,
)
from numaudit.containermanager.cpu.topology import CPUOptions, CPUPolicy, CPUState, CPUTopology, Group
from numaudit.containermanager.pod.spec import Container, Pod, Resources
from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.containermanager.versions import KubeletFeatures
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.quantity import Quantity

POLICY = CPUPolicy(GUEST, reserved=CpuSet.of(0))
FRESH = CPUState(GUEST.cpus)


def short(hints: Sequence[TopologyHint] | None) -> str:
    """Hints in shorthand: `0+ 12-` is node 0, preferred, and nodes 1 and 2, not preferred."""
    assert hints is not None
    return " ".join(f"{''.join(map(str, h.affinity or ()))}{'+' if h.preferred else '-'}" for h in hints)


def cpu_hints(answer: Mapping[str, Sequence[TopologyHint] | None] | None) -> str:
    assert answer is not None
    assert answer.keys() == {"cpu"}
    return short(answer["cpu"])


def one_container(count: int) -> CPUPod:
    return CPUPod("uid", (CPUContainer("app", count),))


def state(default: str, **held: str) -> CPUState:
    return CPUState(CpuSet.parse(default), {"uid": {name: CpuSet.parse(cpus) for name, cpus in held.items()}})


def test_preferred_is_by_capacity_reserved_cpus_included() -> None:
    answer = hints_for_container(POLICY, CPUState(CpuSet.parse("0-2")), one_container(2), "app")
    assert cpu_hints(answer) == "01- 012- 013- 0123-"


def test_nothing_that_fits_is_an_empty_list_not_an_empty_answer() -> None:
    assert hints_for_container(POLICY, CPUState(CpuSet.of(0)), one_container(1), "app") == {"cpu": []}


def test_no_whole_cpus_are_no_preference() -> None:
    assert hints_for_container(POLICY, FRESH, one_container(0), "app") is None
    assert hints_for_pod(POLICY, FRESH, one_container(0)) is None


def test_pod_level_resources_that_are_not_managed_are_no_preference() -> None:
    pod = CPUPod("uid", (CPUContainer("app", 1),), managed=False)
    assert hints_for_container(POLICY, FRESH, pod, "app") is None
    assert hints_for_pod(POLICY, FRESH, pod) is None


def test_cpus_held_over_two_nodes_where_one_would_do_are_not_preferred() -> None:
    answer = hints_for_container(POLICY, state("0-2,5-7", app="3-4"), one_container(2), "app")
    assert cpu_hints(answer) == "12- 012- 123- 0123-"


def test_another_number_of_cpus_than_held_is_impossible() -> None:
    assert hints_for_container(POLICY, state("0-5", app="6-7"), one_container(1), "app") == {"cpu": []}


def test_all_reusable_cpus_must_be_inside_even_when_fewer_would_do() -> None:
    assert short(generate_hints(POLICY, GUEST.cpus, CpuSet.of(2, 4), 1)) == "12- 012- 123- 0123-"


def test_cpus_that_the_machine_lacks_count_as_node_0s() -> None:
    assert short(generate_hints(POLICY, CpuSet(), CpuSet.of(99), 1)) == "0+ 01- 02- 03- 012- 013- 023- 0123-"


def test_sets_inside_one_socket_are_preferred_with_align_by_socket() -> None:
    by_socket = CPUPolicy(EIGHT_CORES, CpuSet.of(0, 8), CPUOptions(align_by_socket=True))
    plain = CPUPolicy(EIGHT_CORES, CpuSet.of(0, 8))
    free = EIGHT_CORES.cpus
    assert short(generate_hints(plain, free, CpuSet(), 2)).startswith("0+ 1+ 2+ 3+ 01- 02- 03- 12- 13- 23- ")
    assert short(generate_hints(by_socket, free, CpuSet(), 2)).startswith("0+ 1+ 2+ 3+ 01+ 02- 03- 12- 13- 23+ ")


def test_reserved_cpus_do_not_change_with_full_pcpus_only() -> None:
    full = CPUPolicy(EIGHT_CORES, CpuSet.of(0), CPUOptions(full_pcpus_only=True))
    assert short(generate_hints(full, CpuSet.of(8), CpuSet(), 1)).startswith("0+ 01- ")


# Pod scope


def test_a_pod_needs_its_sidecars_beside_each_init_container_and_the_apps() -> None:
    pod = CPUPod(
        "uid",
        (
            CPUContainer("init-1", 5, init=True),
            CPUContainer("side-1", 1, init=True, restartable=True),
            CPUContainer("side-2", 2, init=True, restartable=True),
            CPUContainer("init-2", 5, init=True),
            CPUContainer("side-3", 3, init=True, restartable=True),
            CPUContainer("app", 1),
        ),
    )
    assert pod.exclusive == 8


def test_a_pod_that_holds_all_its_cpus_gets_the_sets_around_them() -> None:
    pod = CPUPod("uid", (CPUContainer("a", 1), CPUContainer("b", 1)))
    assert cpu_hints(hints_for_pod(POLICY, state("0-3,6-7", a="4", b="5"), pod)).startswith("2+ 02- 12- 23- ")


def test_a_pod_that_holds_all_its_cpus_needs_nothing_to_reuse() -> None:
    held = CPUState(CpuSet.parse("0-3,6-7"), {"uid": {"app": CpuSet.of(4)}}, reusable={"uid": CpuSet.of(1)})
    assert cpu_hints(hints_for_pod(POLICY, held, one_container(1))).startswith("2+ 02- 12- 23- ")


def test_a_pod_that_holds_a_part_of_its_cpus_keeps_them_inside() -> None:
    pod = CPUPod("uid", (CPUContainer("a", 1), CPUContainer("b", 1)))
    answer = hints_for_pod(POLICY, state("0-4,6-7", a="5"), pod)
    assert cpu_hints(answer) == "2+ 02- 12- 23- 012- 023- 123- 0123-"


def test_one_container_with_another_number_than_held_makes_the_pod_impossible() -> None:
    pod = CPUPod("uid", (CPUContainer("a", 1), CPUContainer("b", 1)))
    assert hints_for_pod(POLICY, state("0-3,6-7", a="4-5"), pod) == {"cpu": []}


def test_a_pod_without_cpus_for_its_shared_containers_is_impossible() -> None:
    apps = (CPUContainer("own", 2), CPUContainer("shared", 0))
    assert hints_for_pod(POLICY, FRESH, CPUPod("uid", apps, pod_level=2)) == {"cpu": []}
    assert cpu_hints(hints_for_pod(POLICY, FRESH, CPUPod("uid", apps, pod_level=3))).startswith("01+ 02+ ")


# From the pod's spec


def container(
    name: str, cpu: str, memory: str = "1Gi", *, limit: str | None = None, sidecar: bool = False
) -> Container:
    requests = {"cpu": Quantity.parse(cpu), "memory": Quantity.parse(memory)}
    limits = {"cpu": Quantity.parse(limit or cpu), "memory": Quantity.parse(memory)}
    return Container(name, Resources(requests, limits), restarts_always=sidecar)


@pytest.mark.parametrize(
    ("cpu", "whole"), [("2", 2), ("2000m", 2), ("2e0", 2), ("1500m", 0), ("100m", 0), ("1999999u", 2), ("1999u", 0)]
)
def test_only_whole_cpus_are_exclusive(cpu: str, whole: int) -> None:
    """The kubelet compares thousandths, rounded up."""
    pod = Pod("p", "default", "uid", (container("app", cpu),))
    assert cpu_pod(pod, KubeletFeatures()).container("app").exclusive == whole


def test_only_guaranteed_pods_have_exclusive_cpus() -> None:
    pod = Pod("p", "default", "uid", (container("app", "2", limit="3"),))
    assert cpu_pod(pod, KubeletFeatures()).container("app").exclusive == 0


def test_a_kubelet_that_knows_no_sidecars_takes_them_for_init_containers() -> None:
    pod = Pod("p", "default", "uid", (container("app", "1"),), (container("side", "1", sidecar=True),))
    assert cpu_pod(pod, KubeletFeatures()).exclusive == 2
    assert cpu_pod(pod, KubeletFeatures((1, 28))).exclusive == 1


def test_old_kubelets_with_in_place_resize_read_the_status() -> None:
    asked = container("app", "2")
    grown = Container("app", asked.resources, allocated={"cpu": Quantity.parse("1")})
    pod = Pod("p", "default", "uid", (grown,))
    in_place = KubeletFeatures((1, 28), in_place_pod_vertical_scaling=True)
    assert cpu_pod(pod, in_place).container("app").exclusive == 1
    assert cpu_pod(pod, KubeletFeatures()).container("app").exclusive == 2


def test_pod_level_cpus_are_the_pods_and_its_guaranteed_containers() -> None:
    two = {"cpu": Quantity.parse("2"), "memory": Quantity.parse("3Gi")}
    shared = Container("shared")
    pod = Pod("p", "default", "uid", (container("own", "1"), shared), resources=Resources(two, two))
    managed = cpu_pod(pod, KubeletFeatures(pod_level_resource_managers=True))
    assert (managed.pod_level, managed.exclusive, managed.managed) == (2, 2, True)
    assert [one.exclusive for one in managed.containers] == [1, 0]
    assert not cpu_pod(pod, KubeletFeatures()).managed


# Whatever the machine


@given(topology=topologies() | regular_machines(), data=st.data())
def test_hints_are_exactly_the_sets_that_fit(topology: CPUTopology, data: st.DataObject) -> None:
    free = data.draw(cpus_of(topology))
    reusable = data.draw(cpus_of(topology)) - free if data.draw(st.booleans()) else CpuSet()
    request = data.draw(st.integers(1, topology.num_cpus))
    hints = generate_hints(CPUPolicy(topology, CpuSet()), free, reusable, request)
    given_sets = {hint.affinity for hint in hints}
    order = [(len(hint.affinity), tuple(hint.affinity)) for hint in hints if hint.affinity is not None]
    assert order == sorted(order)
    could_hold = [len(mask) for mask in topology.nodes.subsets() if len(topology.cpus_in(Group.NODE, mask)) >= request]
    for mask in topology.nodes.subsets():
        inside = topology.cpus_in(Group.NODE, mask)
        fits = reusable <= inside and len((free | reusable) & inside) >= request
        assert (mask in given_sets) == fits
    assert {hint.affinity for hint in hints if hint.preferred} == {
        hint.affinity for hint in hints if len(hint.affinity or NodeSet()) == min(could_hold)
    }
