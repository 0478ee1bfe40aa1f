"""Resource claims (DRA) of real containers: one whose cpuset keeps them, and one whose cpuset breaks them."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from container import Container, container
from kubelets import made_claims as made
from kubelets.podresources_server import serving
from numaudit.checkpoints.formats.claims import Claim
from numaudit.checkpoints.formats.file import MEMORY
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.cli.main import call
from numaudit.containermanager.memory.state import MemoryState
from numaudit.kernel.host import Host
from numaudit.kubelet.proto import podresources_pb2 as pb
from numaudit.kubelet.sources import checkpoints, podresources

pytestmark = pytest.mark.one_kernel

ROOT, LOGS = Path("/"), Path("/var/log/pods")
HOLD = ["sh", "-c", "while :; do busybox sleep 1000; done"]


@dataclass(slots=True)
class Claimant:
    """One container with a claim for CPU 1, which is on node 1, and perhaps one for memory of that node."""

    name: str
    cpus: str
    mems: str
    memory: bool
    uid: str = field(default_factory=lambda: str(uuid4()))
    cpu_claim: str = field(default_factory=lambda: str(uuid4()))
    memory_claim: str = field(default_factory=lambda: str(uuid4()))
    running: Container | None = None

    def claims(self) -> Iterator[Claim]:
        """As the kubelet keeps them."""
        pods = (self.uid,)
        devices = {"dra.cpu": (made.cpu_device(self.cpu_claim),)}
        yield Claim(self.cpu_claim, f"{self.name}-cpus", "lab", pods, devices)
        if self.memory:
            devices = {"dra.memory": (made.memory_device(self.memory_claim),)}
            yield Claim(self.memory_claim, f"{self.name}-memory", "lab", pods, devices)

    def listed(self, answer: pb.ListPodResourcesResponse) -> None:
        """As PodResources lists it."""
        listed = answer.pod_resources.add(name=self.name, namespace="lab").containers.add(name="app")
        for claim in self.claims():
            resource = listed.dynamic_resources.add(claim_name=claim.name, claim_namespace="lab")
            for driver, devices in (claim.drivers or {}).items():
                for one in devices or ():
                    added = resource.claim_resources.add(driver_name=driver, pool_name=one.pool, device_name=one.name)
                    for id_ in one.cdi_ids or ():
                        added.cdi_devices.add(name=id_)


@pytest.fixture
def claimants() -> Iterator[dict[str, Claimant]]:
    """They run, the kubelet's file has their claims, drivers have prepared them, and PodResources answers."""
    host = Host()
    found = (
        Claimant("keeps", "1", "1", memory=True),
        Claimant("breaks", "0", "0-3", memory=True),
        Claimant("cpus-only", "1", "0-3", memory=False),
    )
    answer = pb.ListPodResourcesResponse()
    with contextlib.ExitStack() as stack:
        host.kubelet.mkdir(parents=True, exist_ok=True)
        for path in (host.kubelet / MEMORY, host.kubelet / "dra_manager_state"):
            stack.callback(path.unlink, missing_ok=True)
        stack.callback(shutil.rmtree, "/var/run/cdi", ignore_errors=True)
        checkpoints.write_file(host.kubelet / MEMORY, MemoryCheckpoint.of("None", MemoryState({})))
        memory = {}
        for one in found:
            log = LOGS / f"lab_{one.name}_{one.uid}"
            log.mkdir(parents=True)
            stack.callback(log.rmdir)
            for claim in one.claims():
                made.add_to_state(ROOT, claim)
            made.cpu_cdi(ROOT, one.cpu_claim, "1")
            prefix = f"DRAMEMORY_{one.memory_claim}"
            memory[f"claim-{one.memory_claim}"] = [f"{prefix}_NUMANodes=1", f"{prefix}_memory=numanode:1,size:64Mi"]
            one.listed(answer)
            one.running = stack.enter_context(container(one.uid, "app", HOLD, one.cpus, one.mems, qos="besteffort"))
        made.cdi(ROOT, "dra.k8s.io/memory", memory, "dra.memory.json")
        socket = podresources.socket(host)
        socket.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(serving(socket, {"/v1.PodResourcesLister/List": answer.SerializeToString}))
        yield {one.name: one for one in found}


def rows(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    """The containers of a report, by their pods."""
    assert call(["report", "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    return {one["pod"]: one for one in report["containers"] if one["kind"] == "container"}


def verdicts(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {pod: one["verdict"]["name"] for pod, one in found.items()}


def test_a_cpuset_that_keeps_a_claim_is_aligned_and_one_that_breaks_it_has_drifted(
    claimants: dict[str, Claimant], capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows(capsys)
    assert verdicts(found) == {"keeps": "aligned", "breaks": "drifted", "cpus-only": "unmanaged"}
    assert (
        "may use CPU 0, but was promised CPU 1 by claim lab/breaks-cpus (dra.cpu)"
        in (found["breaks"]["verdict"]["reason"])
    )
    assert "no memory was promised: dra.cpu gave it CPU 1 on node 1" in found["cpus-only"]["verdict"]["reason"]
    intended = found["keeps"]["intended"]
    assert (intended["memoryNodes"], intended["bytes"], intended["cpus"]) == ([1], {"memory": 64 << 20}, "1")
    assert [one["driver"] for one in intended["bySource"]] == ["dra.cpu", "dra.memory"]
    broken = claimants["breaks"].running
    assert broken is not None
    broken.cgroup.write("cpuset.cpus", "1")
    found = rows(capsys)
    assert found["breaks"]["verdict"]["reason"].startswith("it may use nodes 0-3, but was promised node 1 only")
    broken.cgroup.write("cpuset.mems", "1")
    assert verdicts(rows(capsys))["breaks"] == "aligned"
