"""A team of two threads of a real OpenMP runtime, the library of the first argument; it prints `ready`, and stays."""

from __future__ import annotations

import ctypes
import signal
import sys


def main() -> None:
    runtime = ctypes.CDLL(sys.argv[1])
    body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
    runtime.GOMP_parallel(body, None, ctypes.c_uint(2), ctypes.c_uint(0))
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
