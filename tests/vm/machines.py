"""Machines that a test run boots: the usual four nodes by the kernel's name, and a few of other shapes.

A test that is marked with the name of a shape runs on machines of that shape alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import kernels
from guest import Guest
from kernels import Kernel


@dataclass(frozen=True, slots=True)
class Machine:
    """One of another shape than usual."""

    kernel: str
    shape: str
    """The mark of its tests."""


OTHERS: Mapping[str, Machine] = {
    "tiers-6.12": Machine("6.12", "tiers"),
    "tiers-6.1": Machine("6.1", "tiers"),
    "bare-6.12": Machine("6.12", "bare"),
    "devices-6.12": Machine("6.12", "devices"),
    "odd-6.12": Machine("6.12", "odd"),
    "flat-6.1": Machine("6.1", "flat"),
}
"""Name -> machine. Each is one more boot, of some ten seconds."""

SHAPES: Mapping[str, Callable[[Kernel], Guest]] = {
    "tiers": lambda kernel: Guest(kernel, nodes=2, cpus=2, node_memory=320 << 20, slow_nodes=2),
    # Node 1 has the memory from 4 GiB on, and so a whole and aligned GiB.
    "bare": lambda kernel: Guest(
        kernel, nodes=2, cpus=2, node_memory=1600 << 20, bare_nodes=1, command_line="hugepagesz=1G hugepages=1:1"
    ),
    "devices": lambda kernel: Guest(kernel, nodes=2, cpus=2, node_memory=512 << 20, nodes_with_devices=(0, 1)),
    "odd": lambda kernel: Guest(
        kernel,
        nodes=2,
        cpus=2,
        unequal=(512 << 20, 1600 << 20),
        back=9,
        command_line="kernelcore=256M isolcpus=1 hugepages=1:4",
    ),
    "flat": lambda kernel: Guest(kernel, command_line="numa=off"),
}
"""`tiers`: two nodes with CPUs, and two slow ones without. `bare`: two nodes, of which one has a page of 1 GiB,
and one with a CPU and no memory. `devices`: two nodes, each with a network adapter and a disk on its own PCI bus.
`odd`: two nodes that are unlike in all that `numaudit setup` looks at. `flat`: four nodes, and a kernel that was told
to show one; only `make test-all` boots it."""


def find(name: str) -> Guest:
    """By its name, or that of a kernel. Raises Unavailable."""
    other = OTHERS.get(name)
    return Guest(kernels.find(name)) if other is None else SHAPES[other.shape](kernels.find(other.kernel))
