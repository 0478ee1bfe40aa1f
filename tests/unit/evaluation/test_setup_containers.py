"""Each rule about pods: where it is wrong, where it is right, and where it cannot tell."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from made_up.node_setup import MIB, Case, Change, case, config, intent, judged, kubelet, pod, snapshot, uncovered
from numaudit.evaluation.setup.rule import SetupEvidence

NO_PODS = intent(pods=None)
NO_STATIC = kubelet(memoryManagerPolicy="None")
WHOLE = {"limits": {"cpu": "2", "memory": "1Gi"}}
SIDECAR = {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}
LESS_MEMORY = {"limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"memory": "1Gi"}}
POD_LEVEL: dict[str, Any] = {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}


def huge_pages_of_a_service(size: int, on: int) -> Change:
    """A container without a promise holds pages of 2 MiB on a node."""

    def change(before: SetupEvidence) -> SetupEvidence:
        assert before.snapshot.intent is not None
        promised = before.snapshot.intent.by_cgroup
        service = next(one.id for one in before.snapshot.containers if one.id not in promised)
        held = replace(before.snapshot.residency[service], hugetlb={on: size}, huge_pages={2 * MIB: {on: size}})
        return snapshot(residency={**before.snapshot.residency, service: held})(before)

    return change


CASES = (
    case(
        "qos-sidecar",
        "warning",
        "shop/web: its container c1 has no cpu limit, so nothing is promised to c0",
        pod(WHOLE, SIDECAR, qos="Burstable"),
    ),
    case("qos-sidecar", "pass", "", pod(WHOLE, WHOLE)),
    case("qos-sidecar", "pass", "", pod(SIDECAR, SIDECAR, qos="Burstable")),
    case("qos-sidecar", "pass", "", pod(WHOLE, SIDECAR, qos="Burstable"), NO_STATIC),
    case("qos-sidecar", "not-judged", "pods are not known", NO_PODS),
    case("qos-request-below-limit", "info", "c1 requests 1Gi of memory", pod(WHOLE, LESS_MEMORY, qos="Burstable")),
    case("qos-request-below-limit", "pass", "", pod(WHOLE, SIDECAR, qos="Burstable")),
    case("qos-request-below-limit", "pass", "", pod(WHOLE)),
    case("qos-request-below-limit", "not-judged", "pods are not known", NO_PODS),
    case("fractional-cpu", "warning", "c0 asks for 1500m CPUs", pod({"limits": {"cpu": "1500m", "memory": "1Gi"}})),
    case("fractional-cpu", "pass", "", pod(WHOLE)),
    case("fractional-cpu", "pass", "", pod(SIDECAR, qos="Burstable")),
    case(
        "fractional-cpu",
        "pass",
        "",
        pod({"limits": {"cpu": "1500m", "memory": "1Gi"}}),
        kubelet(cpuManagerPolicy="none"),
    ),
    case("fractional-cpu", "not-judged", "pods are not known", NO_PODS),
    case("pod-level-resources", "warning", "shop/web has resources of the pod", pod({}, **POD_LEVEL)),
    case("pod-level-resources", "pass", "", pod(WHOLE)),
    case(
        "pod-level-resources",
        "pass",
        "",
        pod({}, **POD_LEVEL),
        config(feature_gates={"PodLevelResourceManagers": True}),
    ),
    case(
        "pod-level-resources",
        "not-judged",
        "feature gates are not known",
        pod({}, **POD_LEVEL),
        config(feature_gates=None),
    ),
    case("huge-without-promise", "warning", "used without a promise by", huge_pages_of_a_service(16 * MIB, 2)),
    case("huge-without-promise", "pass", "", huge_pages_of_a_service(16 * MIB, 3)),
    case("huge-without-promise", "pass", ""),
    case("huge-without-promise", "not-judged", "the memory of no container could be read", snapshot(residency={})),
)


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_a_rule_about_pods_finds_what_is_wrong_and_only_that(one: Case) -> None:
    found = judged(one)
    assert (found.state, one.says in "; ".join(found.messages)) == (one.state, True), found.messages


def test_each_rule_about_pods_is_shown_wrong_right_and_unknown() -> None:
    assert uncovered(CASES, "containers") == {}
