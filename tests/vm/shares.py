"""A pytest plugin with which the guests of one kernel share its tests: who claims a module first runs all of it.

Loaded with `-p shares`. Every guest has the whole list and a folder that all share, $NUMAUDIT_CLAIMS; a claim is a
folder in it, which only one of them can make. Whoever is faster runs more, so that all end at about the same time.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

CLAIMS_VARIABLE = "NUMAUDIT_CLAIMS"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """True: somebody else runs this one."""
    return None if _is_ours(item.path.stem) else True


@cache
def _is_ours(module: str) -> bool:
    try:
        Path(os.environ[CLAIMS_VARIABLE], module).mkdir()
    except FileExistsError:
        return False
    return True
