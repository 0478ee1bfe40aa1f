"""All tests of manifests need kustomize."""

from __future__ import annotations

import pytest

from required import tool


@pytest.fixture(autouse=True, scope="session")
def _kustomize() -> None:
    tool("kustomize")
