"""Sets of small ids in the kernel's list format: `0-1,3` <-> set <-> bitmask.

Source: the kernel's `bitmap_parselist` and `%*pbl` (lib/bitmap-str.c), cpuset(7) "List format".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations
from typing import ClassVar, Self

from numaudit.errors import ParseError, cut

_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7})/(\d{1,7}))?)?", re.ASCII)


class IdSet:
    """An immutable set of ids, kept as one integer bitmask (bit n = id n).

    No dataclass: documents show it in the list format, not by its field.
    """

    __slots__ = ("mask",)
    mask: int
    limit: ClassVar[int] = 1 << 16
    what: ClassVar[str] = "id"

    def __init__(self, mask: int = 0) -> None:
        if mask < 0:
            raise ValueError(f"a bitmask is not negative: {mask}")
        object.__setattr__(self, "mask", mask)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable: cannot set {name}")

    def __reduce__(self) -> tuple[type[Self], tuple[int]]:
        return type(self), (self.mask,)

    def __eq__(self, other: object) -> bool:
        return self.mask == other.mask if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.mask)

    @classmethod
    def of(cls, *ids: int) -> Self:
        return cls.from_ids(ids)

    @classmethod
    def from_ids(cls, ids: Iterable[int]) -> Self:
        mask = 0
        for one in ids:
            if not 0 <= one < cls.limit:
                raise ValueError(f"{cls.what} {one} is not in 0..{cls.limit - 1}")
            mask |= 1 << one
        return cls(mask)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the kernel's list format; blank text is the empty set.

        Ranges may carry the kernel's stride form `0-15:2/4` (the first 2 of every 4).
        Raises ParseError when the text has another form or an id is out of range.
        """
        mask = 0
        text = text.strip()
        for part in text.split(",") if text else ():
            match = _RANGE.fullmatch(part.strip())
            if match is None:
                raise ParseError(f"not a list of {cls.what}s such as 0-1,3: {cut(text)!r}")
            mask |= cls._range_mask(match, text)
        return cls(mask)

    @classmethod
    def _range_mask(cls, match: re.Match[str], text: str) -> int:
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first or last >= cls.limit:
            raise ParseError(f"{cls.what} range {match[0]} is not within 0..{cls.limit - 1}: {cut(text)!r}")
        if match[3] is None:
            return ((1 << (last - first + 1)) - 1) << first
        used, group = int(match[3]), int(match[4])
        if not 0 < used <= group:
            raise ParseError(f"stride {match[0]} must take 1 or more of its group: {cut(text)!r}")
        return sum(1 << one for one in range(first, last + 1) if (one - first) % group < used)

    def __str__(self) -> str:
        """The kernel's list format, `0-1,3`; the empty set is the empty string."""
        return _list_format(self)

    @property
    def in_words(self) -> str:
        """As a sentence names them: `node 2`, `nodes 0-1,3`, `no node`."""
        if not self:
            return f"no {self.what}"
        return f"{self.what}{'' if len(self) == 1 else 's'} {self}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __iter__(self) -> Iterator[int]:
        """The ids, ascending."""
        mask = self.mask
        while mask:
            low = mask & -mask
            yield low.bit_length() - 1
            mask ^= low

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __contains__(self, one: int) -> bool:
        return one >= 0 and bool(self.mask >> one & 1)

    def __or__(self, other: Self) -> Self:
        return type(self)(self.mask | other.mask)

    def __and__(self, other: Self) -> Self:
        return type(self)(self.mask & other.mask)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.mask & ~other.mask)

    def __le__(self, other: Self) -> bool:
        """Is this set a subset of the other?"""
        return self.mask & ~other.mask == 0

    def __lt__(self, other: Self) -> bool:
        return self.mask != other.mask and self <= other

    def isdisjoint(self, other: Self) -> bool:
        return self.mask & other.mask == 0


class NodeSet(IdSet):
    """A set of NUMA node ids. Ids may have gaps; the kernel's limit is 1024 (NODES_SHIFT 10)."""

    __slots__ = ()
    limit: ClassVar[int] = 1024
    what: ClassVar[str] = "node"

    def combinations(self, size: int) -> Iterator[NodeSet]:
        """All subsets of one size, in lexicographic order of their ascending ids."""
        for ids in combinations(self, size):
            yield NodeSet.from_ids(ids)

    def subsets(self) -> Iterator[NodeSet]:
        """All subsets with 1..n nodes: by size, then lexicographic (the kubelet's order of candidates)."""
        for size in range(1, len(self) + 1):
            yield from self.combinations(size)

    def is_narrower_than(self, other: NodeSet) -> bool:
        """Fewer nodes; with as many nodes, the smaller bitmask (kubelet, bitmask.IsNarrowerThan)."""
        return (len(self), self.mask) < (len(other), other.mask)


class CpuSet(IdSet):
    """A set of logical CPU ids."""

    __slots__ = ()
    limit: ClassVar[int] = 1 << 16
    what: ClassVar[str] = "CPU"


@lru_cache(maxsize=4096)
def _list_format(ids: IdSet) -> str:
    # Thousands of containers share a few sets.
    parts: list[str] = []
    ascending = list(ids)
    start = 0
    for index, one in enumerate(ascending):
        if index + 1 == len(ascending) or ascending[index + 1] != one + 1:
            first = ascending[start]
            parts.append(str(one) if first == one else f"{first}-{one}")
            start = index + 1
    return ",".join(parts)
