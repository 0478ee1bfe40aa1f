"""How long it takes to read and verify a memory_manager_state of 1,000 containers on 8 nodes.

Run: python tests/bench/bench_checkpoint.py. It fails when reading and verifying takes more than 10 ms of CPU time.
The peers in the same run: the JSON parser alone, and the checksum byte by byte.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Mapping

from goals import at_most_ms
from numaudit.checkpoints.formats.memory import MemoryCheckpoint, parse, render, verify
from numaudit.checkpoints.formats.seal import write
from numaudit.containermanager.memory.replay import replay, without_assignments
from numaudit.containermanager.memory.state import Block, MemoryState, charge, default_machine_state
from numaudit.encoding import checksum as fnv
from numaudit.topology.machine import HugePages, Machine, Node
from short import pick, run

LIMIT_SECONDS, SHORT_CHECKPOINT = 0.010, 2.5
CONTAINERS = pick(1000, short=100)
NODES = 8
ROUNDS = pick(100, short=2)
GI = 2**30


def main() -> None:
    prepare = _once(lambda: fnv.fnv1a(bytes(1 << 16))) - _once(lambda: fnv.fnv1a(bytes(1 << 16)))
    state = _state()
    data = write(MemoryCheckpoint.of("Static", state))
    checkpoint = parse(data)
    assert verify(checkpoint).is_valid and checkpoint.state == state
    rendering = render(checkpoint, "V1").encode()
    print(f"{CONTAINERS} containers in as many pods on {NODES} nodes: file {len(data)} bytes, hashed {len(rendering)}")
    seconds = _fastest(
        {
            "read and verify": lambda: verify(parse(data)),
            "read": lambda: parse(data),
            "verify": lambda: verify(checkpoint),
            "write": lambda: write(checkpoint),
            "replay": lambda: replay(without_assignments(state.machine), state),
            "json.loads alone": lambda: json.loads(data),
            "hash": lambda: fnv.fnv1a(rendering),
            "hash byte by byte": lambda: _byte_by_byte(rendering),
        }
    )
    for name, one in seconds.items():
        print(f"  {name:18} {one * 1000:7.2f} ms")
    print(f"  read takes {seconds['read'] / seconds['json.loads alone']:.1f} times json.loads alone")
    print(f"  the hash takes {seconds['hash'] / seconds['hash byte by byte']:.2f} of the time byte by byte")
    print(f"  the first hash of a process also prepares it: {prepare * 1000:.1f} ms")
    whole = seconds["read and verify"]
    print(f"read and verify: {whole * 1000:.2f} ms, allowed {LIMIT_SECONDS * 1000:.0f} ms")
    at_most_ms(
        "read and verify a checkpoint of 1,000 containers", whole * 1000, LIMIT_SECONDS * 1000, short=SHORT_CHECKPOINT
    )


def _state() -> MemoryState:
    """Each container in a pod of its own; every fourth one has huge pages, too."""
    chance = random.Random(1)
    nodes = tuple(Node(id_, memory=768 * GI, huge_pages=(HugePages(GI, 128),)) for id_ in range(NODES))
    machine = default_machine_state(Machine(nodes), {0: {"memory": 4 * GI}})
    entries = {}
    for index in range(CONTAINERS):
        node = index % NODES
        blocks = [Block((node,), "memory", chance.randint(1, 4096) << 20)]
        if index % 4 == 0:
            blocks.append(Block((node,), "hugepages-1Gi", GI))
        for block in blocks:
            machine = charge(machine, (node,), block.type, block.size)
        entries[str(uuid.UUID(int=chance.getrandbits(128)))] = {f"container-{index % 7}": tuple(blocks)}
    return MemoryState(machine, entries)


def _byte_by_byte(data: bytes) -> int:
    value = fnv.OFFSET
    for byte in data:
        value = ((value ^ byte) * fnv.PRIME) & 0xFFFFFFFF
    return value


def _fastest(calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """CPU seconds of the fastest of many calls, made in turn so that a busy machine slows all alike."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            best[name] = min(best[name], _once(call))
    return best


def _once(call: Callable[[], object]) -> float:
    before = time.process_time()
    call()
    return time.process_time() - before


if __name__ == "__main__":
    run(main)
