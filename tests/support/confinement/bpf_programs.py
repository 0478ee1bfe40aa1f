"""The BPF programs in this host's kernel: for tests that ask whether any is left."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator

from numaudit.kernel.tracing import syscall
from numaudit.kernel.tracing.bpf import address_of

_PROG_GET_NEXT_ID = 11  # enum bpf_cmd, include/uapi/linux/bpf.h


def program_ids() -> Iterator[int]:
    """Ids of all BPF programs in the kernel, ascending. Needs CAP_SYS_ADMIN; raises OSError."""
    last = 0
    while True:
        attributes = bytearray(struct.pack("=III", last, 0, 0))
        try:
            syscall.call("bpf", _PROG_GET_NEXT_ID, address_of(attributes), len(attributes))
        except OSError as error:
            if error.errno == errno.ENOENT:
                return
            raise
        last = struct.unpack_from("=I", attributes, 4)[0]
        yield last
