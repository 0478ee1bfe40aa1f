"""Classes of fields are structs of msgspec: a dataclass with slots takes five times their memory, and time at each
start. Dataclasses are what no struct can be.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Generic

import numaudit

WITHOUT_MSGSPEC = (
    "numaudit.cli", "numaudit.config", "numaudit.containermanager.versions",
    "numaudit.evaluation.thresholds", "numaudit.kernel.host", "numaudit.probes.loading",
    "numaudit.probes.reasons", "numaudit.topology.quantity",
)  # fmt: skip
"""What a verb's help imports, or a Python that has BCC and not our libraries."""


def _dataclasses() -> Iterator[type[Any]]:
    for module in pkgutil.walk_packages(numaudit.__path__, "numaudit."):
        for one in vars(importlib.import_module(module.name)).values():
            if isinstance(one, type) and one.__module__ == module.name and is_dataclass(one):
                yield one


def _has_a_reason(cls: type[Any]) -> bool:
    """A field that a struct cannot have, a relative that is no struct, or no repr."""
    if "__repr__" not in vars(cls) or any(not (one.init and one.compare and one.repr) for one in fields(cls)):
        return True
    relatives: list[object] = [*cls.__bases__, *cls.__subclasses__()]
    return any(one not in (object, Generic) for one in relatives)


def test_a_dataclass_is_what_no_struct_can_be() -> None:
    found = [one for one in _dataclasses() if not one.__module__.startswith(WITHOUT_MSGSPEC)]
    assert len(found) > 10, "they are not found"
    assert [f"{one.__module__}.{one.__qualname__}" for one in found if not _has_a_reason(one)] == []
