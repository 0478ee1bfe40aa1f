"""Where a sampled load's data came from: union perf_mem_data_src.

Sources: include/uapi/linux/perf_event.h; arch/x86/events/intel/ds.c, arch/x86/events/amd/ibs.c and
tools/perf/util/arm-spe.c, which fill it, each in its own way.
"""

from __future__ import annotations

from typing import Literal

Origin = Literal[
    "local_cache", "remote_cache", "local_dram", "remote_dram", "slow_near", "slow_far", "remote_unknown", "other"
]

LEVEL, LEVEL_NUMBER, REMOTE, HOPS = (5, 14), (33, 4), (37, 1), (43, 3)
"""Lowest bit and width. Newer kernels use bits above 45 too, older ones call those reserved: they are left out."""

_LOCAL_RAM, _REMOTE_RAM, _REMOTE_CACHE = 0x80, 0x300, 0xC00
_CACHES_BY_LEVEL = 0x78  # L1, line fill buffer, L2, L3
_L1, _L2, _L3, _L4, _CXL, _ANY_CACHE, _LINE_FILL, _RAM, _PMEM, _NOT_TOLD = 1, 2, 3, 4, 9, 11, 12, 13, 14, 15
_CACHES = frozenset((_L1, _L2, _L3, _L4, _ANY_CACHE, _LINE_FILL))
_SHARED_CACHES = frozenset((_L3, _ANY_CACHE))
_SAME_NODE = 1
"""In HOPS: another core of the same node. AMD sets the bit REMOTE with it."""


def origin(value: int) -> Origin:
    """Of one sample.

    The level alone would not do: since Skylake Intel's remote memory has only `hit` in it. Nor would the bit REMOTE:
    AMD also sets it for another core's cache on the same node.
    """
    level, number = _field(value, LEVEL), _field(value, LEVEL_NUMBER)
    is_far = bool(_field(value, REMOTE)) and _field(value, HOPS) != _SAME_NODE
    if level & _REMOTE_RAM:
        return "remote_dram"
    if number == _RAM or level & _LOCAL_RAM:
        return "remote_dram" if is_far else "local_dram"
    if number in (_PMEM, _CXL):
        return "slow_far" if is_far else "slow_near"
    if is_far and (number in _SHARED_CACHES or level & _REMOTE_CACHE):
        return "remote_cache"
    if number in _CACHES or level & _CACHES_BY_LEVEL:
        return "local_cache"
    return "remote_unknown" if is_far and number == _NOT_TOLD else "other"


def _field(value: int, place: tuple[int, int]) -> int:
    low, width = place
    return value >> low & (1 << width) - 1
