"""Shared by the tests of this folder: the image, and a node with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from confinement import image
from confinement.node import NodeHere, node_here
from numaudit.errors import Unavailable

pytest.register_assert_rewrite("confinement.tests")


@pytest.fixture(scope="session")
def root() -> Path:
    """The image's unpacked root file system."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    try:
        return image.rootfs()
    except Unavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def node(root: Path) -> Iterator[NodeHere]:
    with node_here(root) as found:
        yield found
