"""The checksum of a checkpoint: FNV-1a (32 bit) over the text that go-spew makes of the kubelet's struct.

A struct is `{Name:(type)value Name:(type)value}`, a map `map[key:value key:value]`, a slice
`[a b]`; nil is `<nil>`, texts stand raw. Map keys are in order of their values: numbers by size
(the JSON beside it has them in text order), texts by their bytes.

Source: github.com/davecgh/go-spew/spew/format.go, k8s.io/utils/dump, pkg/util/hash and
pkg/kubelet/checkpointmanager/checksum of Kubernetes; http://www.isthe.com/chongo/tech/comp/fnv/, Go's hash/fnv.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

NIL = "<nil>"
OFFSET = 2166136261
PRIME = 16777619
_MASK = 2**32 - 1


class Verification(Struct, frozen=True):
    """Does the stored checksum fit what the file says?"""

    form: str | None
    """The file format whose checksum fits: V1, V2, ...; None = none does, the file is corrupt."""
    stored: int
    computed: int
    """For `form`, or, when none fits, for the format that the file seems to have."""

    @property
    def is_valid(self) -> bool:
        return self.form is not None


def checksum(rendering: str) -> int:
    return fnv1a(rendering.encode("utf-8"))


def identify(stored: int, renderings: Iterable[tuple[str, str]]) -> Verification:
    """The first (format, rendering) whose checksum is the stored one. At least one pair is needed."""
    computed: int | None = None
    for form, rendering in renderings:
        found = checksum(rendering)
        if found == stored:
            return Verification(form, stored, found)
        computed = found if computed is None else computed
    if computed is None:
        raise ValueError("no format to try")
    return Verification(None, stored, computed)


def render_map(items: Iterable[tuple[object, str]] | None) -> str:
    """A map of rendered values. The pairs come in key order; None = a nil map."""
    return NIL if items is None else "map[" + " ".join([f"{key}:{value}" for key, value in items]) + "]"


def render_list(items: Iterable[object] | None) -> str:
    """A slice of rendered elements; None = a nil slice."""
    return NIL if items is None else "[" + " ".join(map(str, items)) + "]"


def fnv1a(data: bytes) -> int:
    found = OFFSET
    for byte in data:
        found = ((found ^ byte) * PRIME) & _MASK
    return found
