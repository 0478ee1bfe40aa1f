"""A real program for a test, or the reason why the test cannot run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tools
from numaudit.errors import Unavailable


def tool(name: str) -> Path:
    """One of a later suite may be missing: then the test is skipped. The system's own must be there in CI."""
    try:
        return tools.find(name)
    except Unavailable as reason:
        if os.environ.get("CI") and tools.TOOLS[name].suite is None:
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))
