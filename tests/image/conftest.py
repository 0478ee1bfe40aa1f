"""What the tests in this folder share: a node with the image."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import image
from confined_node import NodeHere, node_here
from numaudit.errors import Unavailable

pytest.register_assert_rewrite("confined_tests")


@pytest.fixture(scope="session")
def node() -> Iterator[NodeHere]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    try:
        root = image.rootfs()
    except Unavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))
    with node_here(root) as found:
        yield found
