"""The library's questions in plain values."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixture_trees import FIXTURES
from numaudit.containermanager.topologymanager.admission_error import AdmissionError
from numaudit.errors import InputError, NumauditError
from numaudit.memorymanager.kubelet import read_kubelet
from numaudit.memorymanager.questions import (
    allocate_memory,
    initial_state,
    memory_hints,
    merge_hints,
    read_state,
    remove_memory,
    restart_error,
    take_cpus,
    write_state,
)
from numaudit.topology.machine import Machine

GI = 2**30
STATE_FILE = FIXTURES / "kubelet-1.36/standalone-pod-level-resources/1/memory_manager_state"
THREE = initial_state({number: {"memory": "11Gi"} for number in range(3)}, {0: {"memory": "1Gi"}, 1: {"memory": GI}})


def pod(memory: str, *, init: str | None = None, more: dict[str, str] | None = None, **spec: object) -> dict[str, Any]:
    def container(name: str, amount: str) -> dict[str, Any]:
        return {"name": name, "resources": {"limits": {"cpu": "1", "memory": amount, **(more or {})}}}

    before = [] if init is None else [container("init", init)]
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"containers": [container("app", memory)], "initContainers": before, **spec},
    }


def on(*nodes: int, preferred: bool = True) -> dict[str, Any]:
    return {"nodes": list(nodes), "preferred": preferred}


def free(state: dict[str, Any]) -> list[int]:
    return [node["memoryMap"]["memory"]["free"] // GI for node in state["machineState"].values()]


def test_a_machine_without_pods_has_the_checkpoints_words() -> None:
    assert initial_state({0: {"memory": 4 * GI, "hugepages-1Gi": "1Gi"}}, {"0": {"memory": "1Gi"}}) == {
        "machineState": {
            "0": {
                "numberOfAssignments": 0,
                "memoryMap": {
                    "hugepages-1Gi": {
                        "total": GI,
                        "systemReserved": 0,
                        "allocatable": GI,
                        "reserved": 0,
                        "free": GI,
                    },
                    "memory": {
                        "total": 4 * GI,
                        "systemReserved": GI,
                        "allocatable": 2 * GI,
                        "reserved": 0,
                        "free": 2 * GI,
                    },
                },
                "cells": [0],
            }
        },
        "entries": {},
        "podEntries": {},
    }


def test_the_memory_managers_answer() -> None:
    wide = [on(0, 1), on(0, 2), on(1, 2), on(0, 1, 2, preferred=False)]
    assert memory_hints(THREE, pod("15Gi"), "app") == {"memory": wide}
    assert memory_hints(THREE, pod("15Gi")) == {"memory": wide}
    assert memory_hints(THREE, pod("99Gi"), "app") == {}
    assert memory_hints(THREE, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "app"}]}}, "app") is None


def test_answers_are_merged() -> None:
    cpu = {"cpu": [on(0), on(1), on(0, 1, preferred=False)]}
    assert merge_hints([{}, cpu, {"memory": [on(1)]}], "restricted", [0, 1]) == {**on(1), "admit": True}
    assert merge_hints([{"nic": []}, None], "best-effort", [0, 1]) == {**on(0, 1, preferred=False), "admit": True}
    assert merge_hints([{"nic": None}], "single-numa-node", [0, 1]) == {
        "nodes": None,
        "preferred": True,
        "admit": True,
    }
    apart = [{"a": [on(0)]}, {"b": [on(0, 1)]}]
    assert not merge_hints(apart, "restricted", [0, 1])["admit"]
    assert merge_hints(apart, "restricted", [0, 1], version="1.23")["admit"]
    far = {0: {0: 10, 1: 30, 2: 11}, 1: {0: 30, 1: 10, 2: 30}, 2: {0: 11, 1: 30, 2: 10}}
    pairs = [{"m": [on(0, 1), on(0, 2)]}]
    closest = {"prefer-closest-numa-nodes": "true"}
    assert merge_hints(pairs, "best-effort", [0, 1, 2], options=closest, distances=far)["nodes"] == [0, 2]


def test_memory_is_given_and_taken_back() -> None:
    done = allocate_memory(THREE, pod("15Gi"), "app", on(0, 1))
    assert (done["nodes"], done["choice"], done["reusable"]) == ([0, 1], "hint", {})
    assert free(done["state"]) == [0, 5, 11]
    assert done["state"]["entries"] == {"u": {"app": [{"numaAffinity": [0, 1], "type": "memory", "size": 15 * GI}]}}
    assert restart_error(done["state"], THREE) is None
    assert remove_memory(done["state"], "u", "app") == THREE
    with pytest.raises(AdmissionError, match="failed to get the default NUMA affinity"):
        allocate_memory(done["state"], {**pod("15Gi"), "metadata": {"name": "q"}}, "app")


def test_what_an_init_container_leaves_is_handed_on() -> None:
    one = pod("3Gi", init="5Gi")
    first = allocate_memory(THREE, one, "init", on(0))
    assert first["reusable"] == {"0": {"memory": 5 * GI}}
    second = allocate_memory(first["state"], one, "app", on(0), reusable=first["reusable"])
    assert free(second["state"]) == [5, 10, 11]
    assert second["reusable"] == {"0": {"memory": 2 * GI}}
    assert free(allocate_memory(first["state"], one, "app", on(0))["state"]) == [2, 10, 11]


def test_a_pod_with_resources_of_its_own_is_given_memory_at_once() -> None:
    own = pod("1Gi", resources={"requests": {"memory": "4Gi", "cpu": "2"}, "limits": {"memory": "4Gi", "cpu": "2"}})
    gates = {"PodLevelResourceManagers": True}
    done = allocate_memory(THREE, own, None, on(2), gates=gates)
    assert done["state"]["podEntries"]["u"]["memoryBlocks"][0]["size"] == 4 * GI
    assert restart_error(done["state"], THREE, gates=gates) is None
    assert restart_error(done["state"], THREE) == (
        "[memorymanager] the expected machine state is different from the real one"
    )
    assert allocate_memory(THREE, own, "app", on(2))["nodes"] is None


def test_cpus_are_taken() -> None:
    """Two nodes of two cores with two threads each."""
    cpus = {cpu: [cpu % 4 // 2, 0, cpu % 4, 0] for cpu in range(8)}
    assert take_cpus(cpus, "1-7", 3) == "1,4-5"
    assert take_cpus(cpus, "1-7", 4, {"distribute-cpus-across-numa": "true"}) == "2-3,6-7"
    with pytest.raises(AdmissionError, match=r"requested=9, available=8$"):
        take_cpus(cpus, "0-7", 9)
    with pytest.raises(AdmissionError, match=r"request$"):
        take_cpus(cpus, "0-7", 9, version="1.28")


def test_a_captured_state_comes_out_as_it_went_in() -> None:
    captured = json.loads(STATE_FILE.read_bytes())
    kept = {key: captured[key] for key in ("machineState", "entries", "podEntries")}
    assert write_state(read_state(captured)) == kept
    assert write_state(read_state({"machineState": {}})) == {"machineState": {}, "entries": {}, "podEntries": {}}


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: read_state({"machineState": {"x": {}}}), "state: machineState.x: expected a node id"),
        (lambda: read_state({"machineState": {0: {"cells": {1}}}}), "state: Object of type set"),
        (lambda: initial_state({"a": {}}), "not a NUMA node: 'a'"),
        (lambda: initial_state({0: {"cpu": 1}}), "machine.0: 'cpu' is neither memory nor hugepages-<size>"),
        (lambda: initial_state({0: {"hugepages-2Mi": 3}}), "not a whole number of these pages"),
        (lambda: initial_state({0: {"memory": "x"}}), "machine.0.memory: not a quantity"),
        (lambda: merge_hints([{"m": [{"mask": 1}]}], "restricted", [0]), "answers.0.m: must be {'nodes': "),
        (lambda: merge_hints([{"m": [{"nodes": [-1]}]}], "restricted", [0]), "answers.0.m.nodes: not a NUMA node: -1"),
        (lambda: merge_hints([], "strict", [0]), 'unknown policy: "strict"'),
        (lambda: memory_hints(THREE, pod("1Gi"), "app", reusable={"x": {}}), "reusable: not a list of nodes"),
        (lambda: take_cpus({0: [0, 0, 0]}, "0", 1), "cpus.0: must be "),
        (lambda: take_cpus({0: [0, 0, 0, 0]}, "a", 1), "available: not a list of CPUs"),
        (lambda: take_cpus({0: [0, 0, 0, 0]}, "0", -1), "count: must be a whole number from 0 on, not -1"),
        (lambda: merge_hints([], "none", [2000]), "nodes: node 2000 is not in"),
        (lambda: memory_hints(THREE, pod("1Gi"), "app", version="1.28", gates={"PodLevelResources": True}), "1.28"),
    ],
)
def test_another_form_is_refused_with_its_place(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        ask()
    assert message in str(refused.value)


CALLS: dict[str, tuple[Callable[..., object], dict[str, Any]]] = {
    "initial_state": (initial_state, {"machine": {0: {"memory": "4Gi"}}, "reserved": {0: {"memory": "1Gi"}}}),
    "memory_hints": (
        memory_hints,
        {
            "state": THREE,
            "pod": pod("1Gi", init="2Gi"),
            "container": "app",
            "reusable": {"0": {"memory": "1Gi"}},
            "version": "1.36",
            "gates": {"PodLevelResources": True},
        },
    ),
    "merge_hints": (
        merge_hints,
        {
            "answers": [None, {}, {"memory": [on(0, 1)], "cpu": None}],
            "policy": "restricted",
            "nodes": [0, 1],
            "options": {"prefer-closest-numa-nodes": "true"},
            "distances": {0: {0: 10, 1: 21}, 1: {0: 21, 1: 10}},
            "version": "1.36",
        },
    ),
    "allocate_memory": (
        allocate_memory,
        {"state": THREE, "pod": pod("1Gi"), "container": "app", "hint": on(0), "reusable": None, "version": "1.36"},
    ),
    "remove_memory": (remove_memory, {"state": THREE, "pod_uid": "u", "container": "app"}),
    "restart_error": (restart_error, {"state": THREE, "initial": THREE, "version": "1.36", "gates": {}}),
    "take_cpus": (
        take_cpus,
        {"cpus": {0: [0, 0, 0, 0], 1: [0, 0, 1, 0]}, "available": "0-1", "count": 1, "options": {}, "version": "1.36"},
    ),
}
ODD: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    float("nan"),
    2**70,
    "",
    "x",
    "-1Gi",
    "9" * 5000,
    b"x",
    [],
    ["a"],
    [99],
    {},
    {"a": 1},
    {0: 1},
)


def _places(value: object) -> Iterator[list[Any]]:
    yield []
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in below:
        yield from ([key, *place] for place in _places(inner))


@pytest.mark.parametrize("question", CALLS)
def test_the_values_of_a_question_that_are_to_be_damaged_are_right(question: str) -> None:
    ask, values = CALLS[question]
    ask(**values)


@pytest.mark.parametrize("question", CALLS)
@given(data=st.data())
def test_any_odd_value_in_any_place_of_a_question_is_taken_or_refused(question: str, data: st.DataObject) -> None:
    ask, values = CALLS[question]
    damaged: Any = copy.deepcopy(values)
    *above, last = data.draw(st.sampled_from([place for place in _places(values) if place]))
    holder = damaged
    for key in above:
        holder = holder[key]
    holder[last] = data.draw(st.sampled_from(ODD))
    with contextlib.suppress(NumauditError):
        ask(**damaged)


HUGE = 10**5000


@pytest.mark.parametrize(
    "ask",
    [
        lambda: initial_state({0: {"memory": HUGE}}),
        lambda: initial_state({HUGE: {"memory": "1Gi"}}),
        lambda: take_cpus({0: [0, 0, 0, 0]}, "0", HUGE),
        lambda: take_cpus({0: [0, 0, 0, 0]}, "0", -HUGE),
        lambda: merge_hints([None], "best-effort", [0], distances={0: {0: -HUGE}}),
        lambda: merge_hints([None], "best-effort", [HUGE]),
        lambda: memory_hints({"machineState": {"0": {"numberOfAssignments": HUGE}}}, pod("1Gi")),
        lambda: read_kubelet({"reservedMemory": [{"numaNode": 0, "limits": {"memory": HUGE}}]}, Machine(())),
        lambda: read_kubelet({"featureGates": {"A": HUGE}}, Machine(())),
    ],
)
def test_a_number_of_5000_digits_is_a_clear_error(ask: Callable[[], object]) -> None:
    with pytest.raises(InputError, match="a number of more than 4300 digits"):
        ask()
