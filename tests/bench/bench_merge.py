"""How long the merge of hints takes, and how many times faster it is than trying every combination.

Run: python tests/bench/bench_merge.py. It fails when the worst case takes more than 60 ms of CPU time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

from goals import at_most, at_most_ms
from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint, candidate_masks, merge
from numaudit.containermanager.topologymanager.policy import POLICIES, Distances, TopologyOptions
from numaudit.topology.nodeset import NodeSet
from short import pick, run

LIMIT_SECONDS, SHORT_MERGE = 0.060, 5.0
ROUNDS = pick(5, short=1)
EIGHT = NodeSet.parse("0-7")
DISTANCES: Distances = {a: {b: 10 + (a ^ b) for b in EIGHT} for a in EIGHT}


def main() -> None:
    worst = 0.0
    print(f"8 nodes, 4 providers with 255 hints each, CPU ms (best of {ROUNDS}):")
    for kind, providers in {"one node preferred": _by_size(1), "nothing preferred": _by_size(9)}.items():
        for policy in POLICIES:
            for closest in (False, True):
                options = TopologyOptions(prefer_closest_numa_nodes=closest)
                seconds = _time(partial(_merge, providers, policy, options))
                worst = max(worst, seconds)
                print(f"  {kind:20} {policy:17} {'closest' if closest else 'narrowest':10} {seconds * 1000:7.2f}")
    print(f"worst: {worst * 1000:.1f} ms, allowed {LIMIT_SECONDS * 1000:.0f} ms")
    small = _random_small()
    fold = _time(lambda: merge(small, policy="best-effort", nodes=NodeSet.parse("0-3")))
    brute = _time(lambda: _every_combination(small, NodeSet.parse("0-3")))
    print(
        f"4 nodes, 4 providers with 12 hints each: {fold * 1000:.3f} ms, every combination {brute * 1000:.1f} ms: "
        f"{brute / fold:.0f} times faster"
    )
    at_most_ms("the worst merge of hints, 8 nodes", worst * 1000, LIMIT_SECONDS * 1000, short=SHORT_MERGE)
    at_most("a merge, of trying every combination", fold / brute, 1 / 10, short=1 / 3)


def _merge(providers: Sequence[ProviderHints], policy: str, options: TopologyOptions) -> None:
    merge(providers, policy=policy, nodes=EIGHT, options=options, distances=DISTANCES)


def _by_size(preferred: int) -> list[ProviderHints]:
    hints = [TopologyHint(mask, len(mask) == preferred) for mask in candidate_masks(EIGHT)]
    return [{"resource": hints} for _ in range(4)]


def _random_small() -> list[ProviderHints]:
    chance = random.Random(1)
    return [
        {"r": [TopologyHint(NodeSet(chance.randrange(1, 16)), chance.random() < 0.3) for _ in range(12)]}
        for _ in range(4)
    ]


def _every_combination(providers: Sequence[ProviderHints], nodes: NodeSet) -> int:
    """Only the work that cannot be avoided: the AND and the preference of each combination."""
    seen = 0
    for combination in product(*(hints or () for one in providers for hints in (one or {}).values())):
        mask = nodes.mask
        for hint in combination:
            mask &= nodes.mask if hint.affinity is None else hint.affinity.mask
        seen += mask > 0 and all(hint.preferred for hint in combination)
    return seen


def _time(call: Callable[[], object]) -> float:
    """CPU seconds of the fastest of some calls."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = time.process_time()
        call()
        best = min(best, time.process_time() - before)
    return best


if __name__ == "__main__":
    run(main)
