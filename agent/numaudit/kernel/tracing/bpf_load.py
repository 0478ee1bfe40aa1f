"""bpf(2) to make maps and to load programs.

The loader process imports this module under the distribution's Python, which may be older than the agent's: plain
Python 3.9, standard library only. Source: include/uapi/linux/bpf.h (union bpf_attr), kernel/bpf/syscall.c.
"""

from __future__ import annotations

import ctypes
import struct

from numaudit.kernel.tracing import syscall

LICENCE = b"Dual BSD/GPL"
_MAP_CREATE, _PROG_LOAD = 0, 5  # enum bpf_cmd
_TRACE_FENTRY = 24  # BPF_TRACE_FENTRY of enum bpf_attach_type
_LARGEST_LOG = 1 << 20
_LONGEST_NAME = 15
_INSTRUCTION = 8


class LoadError(OSError):
    """The kernel refused a program."""

    log: str = ""
    """The verifier's words, if it came that far."""


def create_map(name: str, kind: int, key_size: int, value_size: int, entries: int, flags: int) -> int:
    """A descriptor of a new map. The kernel keeps only the start of the name. Raises OSError."""
    attributes = struct.pack("=6I4x15sx", kind, key_size, value_size, entries, flags, 0, _name(name))
    return _call(_MAP_CREATE, attributes)


def load_program(name: str, kind: int, instructions: bytes, btf_id: int | None = None) -> int:
    """A descriptor of a new program; `btf_id` is the kernel's function that one of type TRACING is entered with.

    The kernel keeps only the start of the name. Raises LoadError.
    """
    code = ctypes.create_string_buffer(instructions, len(instructions))
    licence = ctypes.create_string_buffer(LICENCE)
    log = ctypes.create_string_buffer(_LARGEST_LOG)
    start = struct.pack(
        "=IIQQ", kind, len(instructions) // _INSTRUCTION, ctypes.addressof(code), ctypes.addressof(licence)
    )
    hook = (0, 0) if btf_id is None else (_TRACE_FENTRY, btf_id)
    rest = struct.pack("=8x15sx4xI36xII8x", _name(name), *hook, 0)
    try:
        return _call(_PROG_LOAD, start + struct.pack("=IIQ", 0, 0, 0) + rest)
    except OSError as error:
        failed = LoadError(error.errno, error.strerror)
    try:  # again for the verifier's words, which are not wanted where nothing is wrong
        return _call(_PROG_LOAD, start + struct.pack("=IIQ", 1, len(log), ctypes.addressof(log)) + rest)
    except OSError:
        failed.log = log.value.decode("utf-8", "replace")
        raise failed from None


def _name(name: str) -> bytes:
    return name.encode()[:_LONGEST_NAME]


def _call(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    return syscall.call("bpf", command, ctypes.addressof(buffer), len(attributes))
