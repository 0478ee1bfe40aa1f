"""An application on the real Environment Abstraction Layer of DPDK, which parses our command line itself: it places
huge pages and binds its threads, prints `ready`, and stays."""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def main() -> None:
    words = [os.fsencode(word) for word in sys.argv]
    arguments = (ctypes.c_char_p * len(words))(*words)
    layer = ctypes.CDLL("librte_eal.so.23")
    if sys.argv[1:] == ["--version"]:
        layer.rte_version.restype = ctypes.c_char_p
        print(os.fsdecode(layer.rte_version()))
        return
    assert layer.rte_eal_init(len(words), arguments) >= 0
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
