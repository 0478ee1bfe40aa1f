"""Resource claims of containers: pods, dra_manager_state, PodResources and CDI specifications joined and judged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fixture_trees import FIXTURES
from hosts.tree_copies import lent
from kubelets import made_claims as made
from kubelets.made_claims import BEST_EFFORT, BURSTABLE, CPU_UID, GUARANTEED, MEMORY_UID
from numaudit.capture.tree import capture
from numaudit.checkpoints.formats.claims import Claim, ClaimDevice
from numaudit.cli.main import call
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.evaluation.findings import Finding
from numaudit.exporters.catalogue import CONTAINER_METRICS
from numaudit.exporters.metric import Columns, Values
from numaudit.intent.node import ClaimPromise, ContainerIntent
from numaudit.kernel.host import Host
from numaudit.kubelet.sources.podresources import decode
from numaudit.report.cells import why
from numaudit.report.values import ContainerReport, Report
from numaudit.topology.nodeset import CpuSet, NodeSet

RECORDED = bytes.fromhex(
    "0a630a0170120764656661756c741a550a036170702a4e1207637075732d31301a0764656661756c74223a0a180a166472612e6b38732e696f"
    "2f6370753d636c61696d2d3112076472612e6370751a066e6f64652d61220d6370756465766e756d61303031"
)
"""List of a kubelet v1.36: pod p, container app, claim cpus-10 with one device of dra.cpu."""
CPUS = {"dra.cpu": [made.cpu_device(CPU_UID)]}
MEMORY = {"dra.memory": [made.memory_device(MEMORY_UID)]}
MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture
def tree() -> Iterator[Path]:
    with lent(FIXTURES / "kubernetes-four-nodes") as found:
        yield found


def tick(tree: Path) -> Report:
    return Engine(Observer.of(Host.under(tree))).tick().report


def row(report: Report, pod: str) -> ContainerReport:
    (found,) = [one for one in report.containers if (one.pod, one.container) == (pod, "app")]
    return found


def judged(tree: Path, pod: str) -> tuple[str, str]:
    """Verdict and its reason."""
    verdict = row(tick(tree), pod).verdict
    assert verdict is not None
    return verdict.name, verdict.reason


def intent_of(tree: Path, pod: str, container: str = "app") -> ContainerIntent:
    intent = Engine(Observer.of(Host.under(tree))).tick().snapshot.intent
    assert intent is not None
    (found,) = [one for one in intent.containers if (one.pod, one.name) == (pod, container)]
    return found


def claims_of(tree: Path, pod: str) -> tuple[ClaimPromise, ...]:
    return intent_of(tree, pod).claims


def pairs(values: Values) -> Iterator[tuple[tuple[str, ...], float]]:
    """Labels and value of each series."""
    yield from zip(values.labels, values.numbers, strict=True) if isinstance(values, Columns) else values


def named(findings: Sequence[Finding], name: str) -> list[str]:
    return [one.message for one in findings if one.name == name]


# What is promised


def test_a_cpu_claim_promises_cpus_and_no_memory(tree: Path) -> None:
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, CPUS)
    made.cpu_cdi(tree, CPU_UID, "2-3")
    found = intent_of(tree, BEST_EFFORT)
    assert (found.promise.cpus, found.promise.memory) == (CpuSet.of(2, 3), ())
    assert found.managers.cpus == CpuSet()
    assert found.claims == (
        ClaimPromise(
            "default", "cpus-10", CPU_UID, "dra.cpu", ("node-a/cpudevnuma001",), cpus=CpuSet.of(2, 3), places=True
        ),
    )


def test_a_memory_claim_promises_bytes_and_huge_pages_on_its_nodes(tree: Path) -> None:
    made.claim(tree, BEST_EFFORT, "mem", MEMORY_UID, MEMORY)
    made.memory_cdi(tree, MEMORY_UID, "0,2", {"memory": "numanode:0,size:2Gi", "hugepages_2m": "numanode:2,size:64Mi"})
    found = intent_of(tree, BEST_EFFORT).promise
    assert found.memory_nodes == NodeSet.of(0, 2)
    assert {(one.type, one.size, one.numa_affinity) for one in found.memory or ()} == {
        ("memory", 2 * GIB, (0,)),
        ("hugepages-2Mi", 64 * MIB, (2,)),
    }


def test_nodes_without_bytes_are_promised_and_their_bytes_are_not_invented(tree: Path) -> None:
    made.claim(tree, BEST_EFFORT, "mem", MEMORY_UID, MEMORY)
    made.memory_cdi(tree, MEMORY_UID, "1,3", {})
    intended = row(tick(tree), BEST_EFFORT).intended
    assert intended is not None
    assert (intended.memory_nodes, intended.bytes) == (NodeSet.of(1, 3), {})
    assert intended.by_source[0].bytes is None


def test_two_claims_of_a_container_on_two_nodes_are_united(tree: Path) -> None:
    other = "1" + CPU_UID[1:]
    made.claim(tree, BEST_EFFORT, "one", CPU_UID, CPUS)
    made.claim(tree, BEST_EFFORT, "two", other, {"dra.cpu": [made.cpu_device(other)]})
    made.cpu_cdi(tree, CPU_UID, "2-3")
    made.cpu_cdi(tree, other, "6")
    found = intent_of(tree, BEST_EFFORT)
    assert found.promise.cpus == CpuSet.of(2, 3, 6)
    assert [one.cpus for one in found.claims] == [CpuSet.of(2, 3), CpuSet.of(6)]


def test_a_container_has_only_the_devices_of_the_request_that_it_names(tree: Path) -> None:
    other = "2" + MEMORY_UID[1:]
    drivers = {
        "dra.cpu": [made.cpu_device(CPU_UID, "cpus")],
        "dra.memory": [made.memory_device(CPU_UID, "mem/near")],
    }
    made.claim(tree, BEST_EFFORT, "both", CPU_UID, drivers, request="mem")
    made.memory_cdi(tree, CPU_UID, "1", {"memory": "numanode:1,size:1Gi"})
    made.claim(tree, BURSTABLE, "other", other, {"dra.cpu": [made.cpu_device(other, "a")]}, request="b")
    found = intent_of(tree, BEST_EFFORT)
    assert [one.driver for one in found.claims] == ["dra.memory"]
    assert (found.promise.cpus, found.promise.memory_nodes) == (CpuSet(), NodeSet.of(1))
    assert claims_of(tree, BURSTABLE) == ()


def test_a_claim_of_a_template_is_found_by_the_name_in_the_status(tree: Path) -> None:
    made.claim(tree, BEST_EFFORT, "cpus", CPU_UID, CPUS, template=True)
    made.cpu_cdi(tree, CPU_UID, "4")
    (found,) = claims_of(tree, BEST_EFFORT)
    assert (found.name, found.cpus) == (f"{BEST_EFFORT}-cpus-x7k2q", CpuSet.of(4))


def test_a_claim_that_stands_for_extended_resources_is_the_named_containers(tree: Path) -> None:
    file = tree / "numaudit/pods.json"
    pods = json.loads(file.read_text())
    (pod,) = [one for one in pods["items"] if one["metadata"]["name"] == BEST_EFFORT]
    pod["status"]["extendedResourceClaimStatus"] = {
        "resourceClaimName": "extended",
        "requestMappings": [{"containerName": "app", "resourceName": "example.com/cpu", "requestName": "r"}],
    }
    file.write_text(json.dumps(pods))
    device = made.cpu_device(CPU_UID, "r")
    made.add_to_state(tree, Claim(CPU_UID, "extended", "default", (pod["metadata"]["uid"],), {"dra.cpu": (device,)}))
    made.cpu_cdi(tree, CPU_UID, "4")
    assert [one.cpus for one in claims_of(tree, BEST_EFFORT)] == [CpuSet.of(4)]


def test_shares_of_one_device_are_one_promise(tree: Path) -> None:
    twins = [ClaimDevice("node-a", "dev", share, ("r",), (f"dra.k8s.io/cpu=claim-{CPU_UID}",)) for share in ("a", "b")]
    made.claim(tree, BEST_EFFORT, "twins", CPU_UID, {"dra.cpu": twins})
    made.cpu_cdi(tree, CPU_UID, "4-5")
    (found,) = claims_of(tree, BEST_EFFORT)
    assert (found.cpus, found.devices) == (CpuSet.of(4, 5), ("node-a/dev",))


# What is not known is named


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ([], f"its CDI device has no variable DRA_CPUSET_{CPU_UID}"),
        ([f"DRA_CPUSET_{CPU_UID.upper()}=2-3"], f"its CDI device has no variable DRA_CPUSET_{CPU_UID}"),
        ([f"DRAMEMORY_{CPU_UID}_NUMANodes=0"], f"its CDI device has no variable DRA_CPUSET_{CPU_UID}"),
        ([f"DRA_CPUSET_{CPU_UID}=2-3", f"DRA_CPUSET_{CPU_UID}=4"], "has two values"),
        ([f"DRA_CPUSET_{CPU_UID}=two"], "not a list of CPUs such as 0-1,3: 'two'"),
        ([f"DRA_CPUSET_{CPU_UID}="], "names no CPU"),
    ],
    ids=["none", "upper case", "another driver's", "twice", "no list", "empty"],
)
def test_another_environment_of_the_cpu_driver_is_not_guessed(tree: Path, env: list[str], problem: str) -> None:
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, CPUS)
    made.cdi(tree, "dra.k8s.io/cpu", {f"claim-{CPU_UID}": env}, "made.json")
    (found,) = claims_of(tree, BEST_EFFORT)
    assert found.cpus is None
    assert problem in (found.problem or "")
    verdict, reason = judged(tree, BEST_EFFORT)
    assert (verdict, problem in reason) == ("unknown", True)
    assert len(named(tick(tree).findings, "claim-unknown")) == 1


@pytest.mark.parametrize(
    ("nodes", "sizes", "problem"),
    [
        ("0", {"memory": "numanode:1,size:1Gi"}, "it has memory on node 1, which"),
        ("0", {"memory": "numanode:0,size:1Gi;numanode:1,size:1Gi"}, "is not numanode:N,size:QUANTITY"),
        ("0", {"memory": "numanode:0,size:0"}, "promises no bytes"),
        ("0", {"swap": "numanode:0,size:1Gi"}, "swap is no memory that numaudit knows"),
        ("", {}, "NUMANodes names no node"),
        ("5000", {}, "NUMANodes"),
    ],
)
def test_another_environment_of_the_memory_driver_is_not_guessed(
    tree: Path, nodes: str, sizes: dict[str, str], problem: str
) -> None:
    made.claim(tree, BEST_EFFORT, "mem", MEMORY_UID, MEMORY)
    made.memory_cdi(tree, MEMORY_UID, nodes, sizes)
    (found,) = claims_of(tree, BEST_EFFORT)
    assert (found.memory, problem in (found.problem or "")) == ((), True)


def test_a_driver_that_is_not_known_is_named_and_changes_no_verdict(tree: Path) -> None:
    device = ClaimDevice("pool", "dev", None, None, ("example.com/nic=claim-1",))
    made.claim(tree, BEST_EFFORT, "nic", CPU_UID, {"nic.example.com": [device]})
    made.claim(tree, GUARANTEED, "port", MEMORY_UID, {"nic.example.com": [device]})
    made.cdi(tree, "example.com/nic", {"claim-1": ["DRA_CPUSET_x=0-7"]}, "nic.json")
    report = tick(tree)
    assert [row(report, pod).verdict.name for pod in (BEST_EFFORT, GUARANTEED)] == [  # type: ignore[union-attr]
        "unmanaged",
        "aligned",
    ]
    assert named(report.findings, "claim-unknown") == [
        f"what claim default/{claim} (nic.example.com) promises is unknown: numaudit does not know this driver"
        for claim in ("nic", "port")
    ]


def test_a_driver_that_gives_devices_only_promises_neither(tree: Path) -> None:
    device = ClaimDevice("pool", "eth1", None, None, None)
    made.claim(tree, BEST_EFFORT, "nic", CPU_UID, {"dra.net": [device]})
    (found,) = claims_of(tree, BEST_EFFORT)
    assert (found.problem, found.cpus, found.memory, found.devices) == (None, None, (), ("pool/eth1",))
    assert named(tick(tree).findings, "claim-unknown") == []


def test_another_cdi_kind_of_a_known_driver_is_not_guessed(tree: Path) -> None:
    device = ClaimDevice("pool", "dev", None, None, (f"dra.example/cpu=claim-{CPU_UID}",))
    made.claim(tree, BEST_EFFORT, "cpus", CPU_UID, {"dra.cpu": [device]})
    made.cdi(tree, "dra.example/cpu", {f"claim-{CPU_UID}": [f"DRA_CPUSET_{CPU_UID}=2-3"]}, "other.json")
    (found,) = claims_of(tree, BEST_EFFORT)
    assert found.problem == "the format of dra.cpu is not known: its CDI kind is dra.example/cpu"


def test_a_lingering_container_whose_cdi_file_is_gone_has_an_unknown_promise(tree: Path) -> None:
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, CPUS)
    made.cpu_cdi(tree, CPU_UID, "2-3").unlink()
    verdict, reason = judged(tree, BEST_EFFORT)
    assert (verdict, f"no CDI file defines dra.k8s.io/cpu=claim-{CPU_UID}" in reason) == ("unknown", True)


def test_a_cdi_file_without_a_container_promises_nothing(tree: Path) -> None:
    made.cpu_cdi(tree, CPU_UID, "2-3")
    assert all(not one.intended.by_source for one in tick(tree).containers if one.intended is not None)


def test_the_entry_of_another_pod_with_that_claim_is_not_this_pods(tree: Path) -> None:
    """The entry of a deleted pod stays while its driver is down."""
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, CPUS, prepared=False)
    made.add_to_state(tree, Claim(CPU_UID, "cpus-10", "default", ("gone",), {"dra.cpu": tuple(CPUS["dra.cpu"])}))
    made.cpu_cdi(tree, CPU_UID, "2-3")
    (found,) = claims_of(tree, BEST_EFFORT)
    assert (found.cpus, "it is not prepared for this pod" in (found.problem or "")) == (None, True)
    assert judged(tree, BEST_EFFORT)[0] == "unknown"


def test_a_damaged_file_of_the_kubelet_leaves_a_claim_unknown(tree: Path) -> None:
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, CPUS)
    made.cpu_cdi(tree, CPU_UID, "2-3")
    file = tree / "var/lib/kubelet/dra_manager_state"
    file.write_bytes(file.read_bytes()[:50])
    verdict, reason = judged(tree, BEST_EFFORT)
    assert (verdict, "no dra_manager_state can be read" in reason) == ("unknown", True)


def test_a_claim_that_its_driver_has_not_prepared_says_so(tree: Path) -> None:
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, {"dra.cpu": []})
    (found,) = claims_of(tree, BEST_EFFORT)
    assert found.problem == "dra.cpu has not prepared it, or not any more"


# Verdicts


def test_cpus_that_are_as_claimed_leave_memory_unpromised_and_say_so(tree: Path) -> None:
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, CPUS)
    made.cpu_cdi(tree, CPU_UID, "2-3")
    made.cpuset(tree, BEST_EFFORT, cpus="2-3")
    verdict, reason = judged(tree, BEST_EFFORT)
    assert verdict == "unmanaged"
    assert reason == "no memory was promised: dra.cpu gave it CPUs 2-3 on node 1 and never sets cpuset.mems"


def test_a_cpuset_that_the_drivers_plugin_did_not_write_has_drifted(tree: Path) -> None:
    """Source: kubernetes-sigs/dra-driver-cpu#140."""
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, CPUS)
    made.cpu_cdi(tree, CPU_UID, "2-3")
    found = row(tick(tree), BEST_EFFORT)
    assert found.verdict is not None
    assert (found.verdict.name, found.verdict.reason) == (
        "drifted",
        "it may use CPU 0, but was promised CPUs 2-3 by claim default/cpus-10 (dra.cpu)",
    )
    assert "NRI" in (found.verdict.remedy or "")
    assert found.verdict.causes == ()


def test_an_offline_cpu_of_a_claim_is_not_missed_in_the_cpuset(tree: Path) -> None:
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, CPUS)
    made.cpu_cdi(tree, CPU_UID, "2-3,30")
    made.cpuset(tree, BEST_EFFORT, cpus="2-3")
    assert judged(tree, BEST_EFFORT)[0] == "unmanaged"
    made.cpuset(tree, BEST_EFFORT, cpus="2")
    assert judged(tree, BEST_EFFORT)[1].endswith("; CPU 30 is offline")


@pytest.mark.parametrize(
    ("nodes", "mems", "verdict"),
    [("0", "0", "aligned"), ("0", "0-3", "drifted"), ("1", "1", "unknown"), ("0-1", "0-1", "split")],
    ids=["kept", "wider", "spilled, until a second tick confirms it", "two nodes"],
)
def test_the_memory_of_a_claim_is_judged_as_the_memory_managers(
    tree: Path, nodes: str, mems: str, verdict: str
) -> None:
    """The container has its memory on node 0, where it runs."""
    made.claim(tree, BEST_EFFORT, "mem", MEMORY_UID, MEMORY)
    made.memory_cdi(tree, MEMORY_UID, nodes, {"memory": "numanode:0,size:64Mi"} if "0" in nodes else {})
    made.cpuset(tree, BEST_EFFORT, mems=mems)
    assert judged(tree, BEST_EFFORT)[0] == verdict


def test_memory_off_the_claimed_nodes_is_spilled_at_the_second_tick(tree: Path) -> None:
    made.claim(tree, BEST_EFFORT, "mem", MEMORY_UID, MEMORY)
    made.memory_cdi(tree, MEMORY_UID, "1", {"memory": "numanode:1,size:64Mi"})
    made.cpuset(tree, BEST_EFFORT, mems="1")
    engine = Engine(Observer.of(Host.under(tree)))
    for _ in range(2):
        report = engine.tick().report
    verdict = row(report, BEST_EFFORT).verdict
    assert verdict is not None
    assert verdict.name == "spilled"


def test_a_container_of_the_shared_pool_has_no_promise_by_its_cpuset(tree: Path) -> None:
    """The CPU driver writes cpuset.cpus of every container; a claim is what makes it a promise."""
    made.claim(tree, BURSTABLE, "cpus-10", CPU_UID, CPUS)
    made.cpu_cdi(tree, CPU_UID, "2-3")
    made.cpuset(tree, BEST_EFFORT, cpus="0-1,4-7")
    found = intent_of(tree, BEST_EFFORT)
    assert (found.claims, found.promise.cpus) == ((), CpuSet())
    assert judged(tree, BEST_EFFORT) == ("unmanaged", "the pod is BestEffort")


# Both kinds


def test_claimed_cpus_beside_the_kubelets_memory_of_another_node_disagree(tree: Path) -> None:
    """Source: kubernetes/website#56232."""
    made.claim(tree, GUARANTEED, "cpus-10", CPU_UID, CPUS)
    made.cpu_cdi(tree, CPU_UID, "2-3")
    report = tick(tree)
    (message,) = named(report.findings, "cpu-memory-disagree")
    assert message == (
        "its promises do not fit each other: CPU 1 on node 0 by the kubelet; "
        "CPUs 2-3 on node 1 by claim default/cpus-10 (dra.cpu); memory on node 0 by the kubelet"
    )
    intended = row(report, GUARANTEED).intended
    assert intended is not None
    assert [(one.source, one.cpus, one.memory_nodes) for one in intended.by_source] == [
        ("kubelet", CpuSet.of(1), NodeSet.of(0)),
        ("dra", CpuSet.of(2, 3), None),
    ]


def test_claims_that_fit_the_kubelets_promise_do_not_disagree(tree: Path) -> None:
    made.claim(tree, GUARANTEED, "mem", MEMORY_UID, MEMORY)
    made.memory_cdi(tree, MEMORY_UID, "0", {"memory": "numanode:0,size:64Mi"})
    report = tick(tree)
    assert named(report.findings, "cpu-memory-disagree") == []
    found = row(report, GUARANTEED)
    assert found.verdict is not None and found.intended is not None and found.intended.bytes is not None
    assert found.verdict.name == "aligned"
    (kubelets, claimed) = (one.bytes or {} for one in found.intended.by_source)
    assert found.intended.bytes["memory"] == kubelets["memory"] + claimed["memory"]


def test_memory_of_two_nodes_by_the_two_kinds_disagrees(tree: Path) -> None:
    made.claim(tree, GUARANTEED, "mem", MEMORY_UID, MEMORY)
    made.memory_cdi(tree, MEMORY_UID, "2", {"memory": "numanode:2,size:64Mi"})
    (message,) = named(tick(tree).findings, "cpu-memory-disagree")
    assert "memory on node 0 by the kubelet; memory on node 2 by claim default/mem (dra.memory)" in message
    assert judged(tree, GUARANTEED)[0] == "drifted"


# PodResources


def test_recorded_bytes_of_podresources_name_the_claim_and_its_device() -> None:
    (pod,) = decode(RECORDED)
    (found,) = pod.claims["app"]
    assert (found.namespace, found.claim, found.driver) == ("default", "cpus-10", "dra.cpu")
    assert (found.pool, found.device, found.share_id) == ("node-a", "cpudevnuma001", None)
    assert found.cdi_ids == ("dra.k8s.io/cpu=claim-1",)


def _listed(tree: Path, devices: Sequence[tuple[str, str, Sequence[str]]]) -> None:
    """The best-effort pod's claim in PodResources: driver, device and CDI names of each."""
    from numaudit.kubelet.proto import podresources_pb2 as pb  # noqa: PLC0415

    file = tree / "numaudit/podresources-list.pb"
    answer = pb.ListPodResourcesResponse.FromString(file.read_bytes())
    (pod,) = [one for one in answer.pod_resources if one.name == BEST_EFFORT]
    resource = pod.containers[0].dynamic_resources.add(claim_name="cpus-10", claim_namespace="default")
    for driver, device, ids in devices:
        added = resource.claim_resources.add(driver_name=driver, pool_name="node-a", device_name=device)
        for id_ in ids:
            added.cdi_devices.add(name=id_)
    file.write_bytes(answer.SerializeToString())


def test_podresources_stand_in_where_the_kubelets_file_is_not_there(tree: Path) -> None:
    id_ = f"dra.k8s.io/cpu=claim-{CPU_UID}"
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, CPUS, prepared=False)
    made.cpu_cdi(tree, CPU_UID, "2-3")
    _listed(tree, [("dra.cpu", "cpudevnuma001", [id_]), ("dra.cpu", "cpudevnuma002", [id_, id_])])
    (found,) = claims_of(tree, BEST_EFFORT)
    assert (found.uid, found.cpus) == (CPU_UID, CpuSet.of(2, 3))
    assert found.devices == ("node-a/cpudevnuma001", "node-a/cpudevnuma002")


def test_a_kubelet_before_1_34_lists_no_claims_and_its_file_has_them(tree: Path) -> None:
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, CPUS)
    made.cpu_cdi(tree, CPU_UID, "2-3")
    assert all(not one.claims for one in decode((tree / "numaudit/podresources-list.pb").read_bytes()))
    assert [one.cpus for one in claims_of(tree, BEST_EFFORT)] == [CpuSet.of(2, 3)]


# Outputs


def test_metrics_of_promises_have_the_claims_and_their_part_apart(tree: Path) -> None:
    made.claim(tree, GUARANTEED, "mem", MEMORY_UID, MEMORY)
    made.memory_cdi(tree, MEMORY_UID, "0,2", {"memory": "numanode:2,size:1Gi"})
    found = row(tick(tree), GUARANTEED)
    rows = {one.name: dict(pairs(one.values(found))) for one in CONTAINER_METRICS if "_intended_" in one.name}
    claimed = {one.name: dict(pairs(one.values(found))) for one in CONTAINER_METRICS if "_claimed_" in one.name}
    assert rows["container_intended_node"] == {("0", "memory"): 1, ("2", "memory"): 1, ("0", "cpu"): 1}
    assert claimed["container_claimed_node"] == {("0", "memory"): 1, ("2", "memory"): 1}
    assert claimed["container_claimed_bytes"] == {("memory",): GIB}
    assert rows["container_intended_bytes"]["memory",] > GIB


def test_containers_without_claims_have_no_series_of_them(tree: Path) -> None:
    for one in tick(tree).containers:
        assert not [each for each in CONTAINER_METRICS if "_claimed_" in each.name and list(pairs(each.values(one)))]


def test_explain_names_each_source_of_the_promise(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made.claim(tree, GUARANTEED, "cpus-10", CPU_UID, CPUS)
    made.cpu_cdi(tree, CPU_UID, "0-1")
    assert call(["explain", f"{GUARANTEED}/app", "--root", str(tree)]) in (0, 1)
    said = " ".join(capsys.readouterr().out.split())
    assert "by the kubelet: CPU 1 on node 0; memory 200Mi on node 0" in said
    assert "by claim default/cpus-10 (dra.cpu): CPUs 0-1 on node 0; no memory; devices node-a/cpudevnuma001" in said


def test_the_cell_of_a_drifted_claim_shows_its_cpus(tree: Path) -> None:
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, CPUS)
    made.cpu_cdi(tree, CPU_UID, "2-3")
    assert why(row(tick(tree), BEST_EFFORT)) == "CPUs 0; promised 2-3"


# A capture


def test_a_capture_keeps_claims_and_no_other_variables_of_cdi_files(tree: Path, tmp_path: Path) -> None:
    made.claim(tree, BEST_EFFORT, "cpus-10", CPU_UID, CPUS)
    spec = made.cpu_cdi(tree, CPU_UID, "2-3")
    spec.write_text(spec.read_text().replace('"DRA_CPUSET_', '"TOKEN=secret", "DRA_CPUSET_', 1))
    (spec.parent / "torn.json").write_text('{"cdiVersion": "0.8.0", "ki')
    summary = capture(Host.under(tree), tmp_path / "captured")
    kept = (tmp_path / "captured/var/run/cdi" / spec.name).read_text()
    assert ("secret" in kept, f"DRA_CPUSET_{CPU_UID}=2-3" in kept) == (False, True)
    assert [one.what for one in summary.unread if "cdi" in one.what] == ["/var/run/cdi/torn.json"]
    assert claims_of(tmp_path / "captured", BEST_EFFORT) == claims_of(tree, BEST_EFFORT)
