"""/sys/kernel/mm/mempolicy/weighted_interleave: the weights of the policy weighted interleave.

Source: mm/mempolicy.c; Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave.
"""

from __future__ import annotations

import re

from numaudit.kernel import files
from numaudit.kernel.host import Host, read_text

_NODE = re.compile(r"node(\d{1,4})", re.ASCII)


def read(host: Host) -> dict[int, int] | None:
    """Weight by node, 1 to 255; None = the kernel has no such policy (before Linux 6.9).

    A node whose file is not a number is left out.
    """
    folder = host.sys / "kernel/mm/mempolicy/weighted_interleave"
    try:
        names = sorted(files.names(folder))
    except OSError:
        return None
    weights: dict[int, int] = {}
    for name in names:
        node = _NODE.fullmatch(name)
        if node is None:
            continue
        try:
            text = read_text(folder / name).strip()
        except OSError:
            continue
        if text.isascii() and text.isdigit() and len(text) < 4:
            weights[int(node[1])] = int(text)
    return weights
