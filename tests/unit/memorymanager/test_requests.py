"""What a whole pod asks for at once."""

from __future__ import annotations

import pytest

from kubelets.pods import container, pod
from numaudit.containermanager.pod.requests import container_requests, pod_requests
from numaudit.containermanager.pod.spec import Container, Pod
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.containermanager.versions import KubeletFeatures

GI = 2**30


def of(*apps: str, init: tuple[Container, ...] = ()) -> Pod:
    return pod("u", *(container(f"app{number}", memory) for number, memory in enumerate(apps)), init=init)


def setup(memory: str, name: str = "setup") -> Container:
    return container(name, memory)


def sidecar(memory: str, name: str = "sidecar") -> Container:
    return container(name, memory, sidecar=True)


@pytest.mark.parametrize(
    ("asking", "gib"),
    [
        (of("1Gi"), 1),
        (of("1Gi", "2Gi"), 3),
        (of("1Gi", "2Gi", init=(setup("2Gi"),)), 3),
        (of("1Gi", init=(setup("5Gi"), setup("4Gi", "second"))), 5),
        (of("1Gi", init=(sidecar("2Gi"),)), 3),
        (of("1Gi", "1Gi", init=(sidecar("2Gi"), sidecar("3Gi", "second"))), 7),
        # An init container runs beside the sidecars before it, not beside those after it.
        (of("1Gi", init=(sidecar("2Gi"), setup("4Gi"))), 6),
        (of("1Gi", init=(setup("4Gi"), sidecar("2Gi"))), 4),
        (of("1Gi", init=(sidecar("2Gi"), setup("4Gi"), sidecar("3Gi", "second"))), 6),
    ],
)
def test_a_pod_asks_for_the_most_that_runs_at_one_time(asking: Pod, gib: int) -> None:
    assert pod_requests(asking) == {"memory": gib * GI}


def test_kubelets_before_1_32_take_sidecars_for_ordinary_init_containers() -> None:
    features, _ = KubeletFeatures.of("1.28")
    assert pod_requests(of("1Gi", "1Gi", init=(sidecar("2Gi"), sidecar("3Gi", "second"))), features) == {
        "memory": 3 * GI
    }


def test_what_only_an_init_container_asks_for_is_no_request_of_the_pod() -> None:
    pages = {"hugepages-2Mi": "4Mi"}
    asking = pod("u", container("app"), init=(container("setup", more=pages),))
    assert pod_requests(asking) == {"memory": GI}
    asking = pod("u", container("app", more=pages), init=(container("setup", more={"hugepages-2Mi": "8Mi"}),))
    assert pod_requests(asking) == {"memory": GI, "hugepages-2Mi": 8 << 20}


def test_what_is_asked_for_at_pod_level_counts_where_a_kubelet_manages_that() -> None:
    amounts = {"cpu": "4", "memory": "6Gi", "hugepages-2Mi": "0"}
    asking = pod("u", container("app", "1Gi"), resources=amounts)
    managing, _ = KubeletFeatures.of("1.36", {"PodLevelResourceManagers": True})
    assert pod_requests(asking, managing) == {"memory": 6 * GI}
    # Without pod-level resources nothing is asked for at pod level, whatever the kubelet manages.
    assert pod_requests(pod("u", container("app", "1Gi")), managing) == {"memory": GI}


def test_an_amount_beyond_64_bits_is_refused_with_the_kubelets_words() -> None:
    too_much = pod("u", container("app", "9223372036854775808"))
    with pytest.raises(AdmissionError, match="failed to represent quantity as int64"):
        container_requests(too_much, too_much.containers[0])
