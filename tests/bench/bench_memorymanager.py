"""How many pods a second the static Memory Manager admits and removes on eight nodes.

Run: python tests/bench/bench_memorymanager.py. It fails when 10,000 steps take more than 10 s of CPU
time. A step is one pod with its hints, merge and allocation, or the removal of one; up to 60 pods
are on the node at a time, and one in eight asks for more than one node has.
"""

from __future__ import annotations

import random
import time

from goals import at_most_ms
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.pod.spec import Pod
from numaudit.memorymanager.admission import NodeState, admit, remove
from numaudit.memorymanager.kubelet import Kubelet, read_kubelet
from numaudit.memorymanager.manager import fresh_state
from numaudit.topology.machine import HugePages, Machine, Node
from short import pick, run

STEPS = pick(10_000, short=300)
LIMIT_SECONDS, SHORT_ADMISSIONS = 10.0, 60.0
GI = 2**30


def main() -> None:
    slowest = 0.0
    for scope in ("container", "pod"):
        for policy in ("best-effort", "single-numa-node"):
            kubelet = _kubelet(policy, scope)
            seconds, admitted, refused = _run(kubelet, _pods())
            slowest = max(slowest, seconds)
            print(
                f"{policy:17} {scope:9} {STEPS / seconds:8.0f} steps/s "
                f"({STEPS} steps in {seconds:.2f} s of CPU time: {admitted} admitted, {refused} refused)"
            )
    print(f"slowest: {slowest:.2f} s, allowed {LIMIT_SECONDS:.0f} s")
    at_most_ms("10,000 admissions, the slowest policy", slowest * 1000, LIMIT_SECONDS * 1000, short=SHORT_ADMISSIONS)


def _run(kubelet: Kubelet, pods: list[Pod]) -> tuple[float, int, int]:
    chance = random.Random(1)
    state: NodeState = fresh_state(kubelet)
    admitted = refused = 0
    began = time.process_time()
    for step in range(STEPS):
        if len(state.pods) >= 60 or (state.pods and chance.random() < 0.45):
            state = remove(state, chance.choice(list(state.pods)))
            continue
        admission = admit(kubelet, state, pods[step])
        state = admission.state
        admitted += admission.admitted
        refused += not admission.admitted
    return time.process_time() - began, admitted, refused


def _kubelet(policy: str, scope: str) -> Kubelet:
    nodes = tuple(Node(id_, memory=192 * GI, huge_pages=(HugePages(GI, 32),)) for id_ in range(8))
    configuration = {
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": policy,
        "topologyManagerScope": scope,
        "kubeReserved": {"memory": "3996Mi"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "4Gi"}}],
    }
    return read_kubelet(configuration, Machine(nodes))[0]


def _pods() -> list[Pod]:
    chance = random.Random(2)
    return [_pod(f"pod-{number}", chance) for number in range(STEPS)]


def _pod(uid: str, chance: random.Random) -> Pod:
    memory = f"{chance.choice([4, 8, 16, 24, 32, 48, 64, 200])}Gi"
    limits = {"cpu": "1", "memory": memory}
    if chance.random() < 0.2:
        limits["hugepages-1Gi"] = "2Gi"
    return read_pod(
        {
            "metadata": {"name": uid, "uid": uid},
            "spec": {"containers": [{"name": "app", "resources": {"limits": limits}}]},
        }
    )


if __name__ == "__main__":
    run(main)
