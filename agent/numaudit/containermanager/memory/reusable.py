"""Memory of init containers that the later containers of their pod use again.

Source: pkg/kubelet/cm/memorymanager/{memory_manager,policy_static}.go (updateInitContainersMemoryBlocks,
updatePodReusableMemory).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from numaudit.containermanager.memory.candidates import Reusable
from numaudit.containermanager.memory.state import Block
from numaudit.containermanager.pod.spec import Pod, is_ordinary_init
from numaudit.containermanager.versions import KubeletFeatures
from numaudit.topology.nodeset import NodeSet


def update_reusable(
    reusable: Mapping[str, Reusable], pod: Pod, container: str, blocks: Sequence[Block], features: KubeletFeatures
) -> Mapping[str, Reusable]:
    """An ordinary init container leaves its memory to the next containers, which use it up.

    What other pods left is forgotten.
    """
    left = {mask: dict(sizes) for mask, sizes in reusable.get(pod.uid, {}).items()}
    leaves = is_ordinary_init(pod, container, features)
    for block in blocks:
        mask = NodeSet.from_ids(block.numa_affinity or ())
        size = left.get(mask, {}).get(block.type, 0)
        if leaves:
            left.setdefault(mask, {})[block.type] = max(size, block.size)
        elif size:
            left[mask][block.type] = max(0, size - block.size)
    return {pod.uid: left} if left else {}


def shrink_init_blocks(
    containers: Mapping[str, tuple[Block, ...]],
    pod: Pod,
    container: str,
    blocks: Sequence[Block],
    features: KubeletFeatures,
) -> Mapping[str, tuple[Block, ...]]:
    """Take what a new container reuses out of the blocks of the init containers before it.

    So the blocks of a pod sum up to what was charged for it.
    """
    shrunk = dict(containers)
    sidecars = pod.known.sidecars if features.knows_sidecars else frozenset()
    for block in blocks:
        left, nodes = block.size, set(block.numa_affinity or ())
        for init in pod.init_containers:
            if left == 0 or init.name == container:
                break
            if init.name in sidecars or init.name not in shrunk:
                continue
            for one in shrunk[init.name]:
                if one.size and one.type == block.type and set(one.numa_affinity or ()) == nodes:
                    taken = min(left, one.size)
                    left -= taken
                    rest = replace(one, size=one.size - taken)
                    shrunk[init.name] = tuple([rest if other is one else other for other in shrunk[init.name]])
    return shrunk
