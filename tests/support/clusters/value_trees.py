"""Trees of YAML values."""

from __future__ import annotations

from typing import Any


def merged(tree: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`tree` with the values of another on top, as Helm merges them.

    Maps are merged key by key, lists and scalars are replaced as a whole, and null removes a key.
    """
    both = {key: value for key, value in {**tree, **over}.items() if value is not None}
    for key in tree.keys() & both.keys() & over.keys():
        if isinstance(tree[key], dict) and isinstance(over[key], dict):
            both[key] = merged(tree[key], over[key])
    return both
