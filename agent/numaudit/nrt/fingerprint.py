"""Fingerprint of a node's pods, by which a scheduler sees whether it counts the same ones.

Source: github.com/k8stopologyawareschedwg/podfingerprint (pfp0v001).
"""

from __future__ import annotations

from collections.abc import Iterable

from xxhash import xxh64_intdigest

_PREFIX = "pfp0v001"


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Fingerprint of (namespace, name) pairs, in any order."""
    hashes = sorted(xxh64_intdigest(name.encode(), xxh64_intdigest(namespace.encode())) for namespace, name in pods)
    return f"{_PREFIX}{xxh64_intdigest(b''.join(one.to_bytes(8, 'little') for one in hashes)):016x}"
