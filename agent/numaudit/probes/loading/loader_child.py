"""The loader process: loads BPF programs, sends their descriptors, and ends.

Started by loader.py as `python -m numaudit.probes.loading.loader_child SOCKET SECONDS`. It keeps bcc and
LLVM (some 120 MB) out of the agent where a text has to be compiled, and mounts tracefs for itself alone. It runs under
whatever Python has bcc: plain Python 3.9 and its standard library, nothing of numaudit but a few modules that keep to
these, too.

One SOCK_SEQPACKET message each way holds JSON: the requests in, then one answer for each probe, which
carries the descriptors of its programs and maps in the order that the answer names them.

Source: include/uapi/linux/bpf.h (union bpf_attr), kernel/bpf/syscall.c.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from numaudit.kernel.tracing import syscall
from numaudit.probes import reasons
from numaudit.probes.loading import bytecode, compiler
from numaudit.probes.loading.bytecode import Bytecode
from numaudit.probes.reasons import ProbeRefusal, Reason

TRACEFS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_LARGEST_REQUEST = 1 << 20
_CLONE_NEWNS = 0x00020000
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18
_PR_SET_PDEATHSIG = 1
_LICENCE = b"Dual BSD/GPL"
_MAP_CREATE, _PROG_LOAD = 0, 5  # enum bpf_cmd
_TRACE_FENTRY = 24  # BPF_TRACE_FENTRY of enum bpf_attach_type
_LARGEST_LOG = 1 << 20
_LONGEST_NAME = 15
_INSTRUCTION = 8
_FIELD = re.compile(r"\bfield:[^;]*?(\w+)(?:\[\w*\])?;\s*offset:(\d+);\s*size:(\d+);")


def main(channel: socket.socket) -> None:
    """Answer the requests that wait on the channel."""
    for request in json.loads(channel.recv(_LARGEST_REQUEST)):
        try:
            _load(channel, request)
        except ProbeRefusal as refusal:
            answer = {"name": request["name"], "reason": refusal.reason.value, "text": refusal.text}
            channel.send(json.dumps(answer).encode())


def _load(channel: socket.socket, request: dict[str, Any]) -> None:
    """Raises ProbeRefusal."""
    ids, fields = _tracepoints(request)
    compiled = _find_bytecode(request)
    maps = _make_maps(compiled, request)
    programs, refused = {}, {}
    for program in request["programs"]:
        function = program["function"]
        instructions = bytecode.link(compiled.programs[function], maps, request["numbers"], fields)
        try:
            programs[function] = _load_program(function, program["type"], instructions, program["btf_id"])
        except LoadError as error:
            refusal = reasons.of_load(function, error.errno or 0, error.log)
            if not program["may_fail"]:
                raise refusal from error
            refused[function] = (refusal.reason.value, refusal.text)
    answer = {"name": request["name"], "programs": [*programs], "maps": request["maps"]}
    answer.update(tracepoint_ids=ids, refused=refused)
    descriptors = [*programs.values(), *(maps[name] for name in request["maps"])]
    socket.send_fds(channel, [json.dumps(answer).encode()], descriptors)


def _find_bytecode(request: dict[str, Any]) -> Bytecode:
    """Raises ProbeRefusal."""
    if "bytecode" in request:
        return bytecode.unpack(request["bytecode"])
    compiler.check_bcc()
    return compiler.compile_text(request["text"], request["defines"])


def _make_maps(compiled: Bytecode, request: dict[str, Any]) -> dict[str, int]:
    """Descriptors of those that are asked for, or used. Raises ProbeRefusal."""
    used = {name for one in request["programs"] for name in compiled.programs[one["function"]].names.values()}
    made = {}
    for name in sorted({*request["maps"], *(used & compiled.maps.keys())}):
        shape = compiled.maps[name]
        entries = request["entries"].get(name, shape.entries)
        size = shape.value_size
        try:
            made[name] = _create_map(name, shape.type, shape.key_size, size, entries, shape.flags)
        except OSError as error:
            raise reasons.of_error(f"the kernel refuses the map {name}", error) from error
    return made


class LoadError(OSError):
    """The kernel refused a program."""

    log: str = ""
    """The verifier's words, if it came that far."""


def _create_map(name: str, kind: int, key_size: int, value_size: int, entries: int, flags: int) -> int:
    """A descriptor of a new map. The kernel keeps only the start of the name. Raises OSError."""
    attributes = struct.pack("=6I4x15sx", kind, key_size, value_size, entries, flags, 0, _name(name))
    return _call(_MAP_CREATE, attributes)


def _load_program(name: str, kind: int, instructions: bytes, btf_id: int | None = None) -> int:
    """A descriptor of a new program; `btf_id` is the kernel's function that one of type TRACING is entered with.

    The kernel keeps only the start of the name. Raises LoadError.
    """
    code = ctypes.create_string_buffer(instructions, len(instructions))
    licence = ctypes.create_string_buffer(_LICENCE)
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


def _tracepoints(request: dict[str, Any]) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """The kernel's number of each tracepoint that the request's programs attach to; offset and size of their fields.

    The fields go by their names in the text. Raises ProbeRefusal.
    """
    ids: dict[str, int] = {}
    fields: dict[str, tuple[int, int]] = {}
    hooked = [program for program in request["programs"] if program["tracepoint"]]
    root = _find_tracefs() if hooked else ""
    for program in hooked:
        name = program["tracepoint"]
        folder = f"{root}/events/{name.replace(':', '/')}"
        try:
            ids[name] = int(Path(folder, "id").read_text(encoding="ascii"))
            found = read_fields(Path(folder, "format").read_text(encoding="utf-8")) if program["fields"] else {}
        except FileNotFoundError:
            raise ProbeRefusal(Reason.NO_TRACEPOINT, f"this kernel has no tracepoint {name}") from None
        except OSError as error:
            raise reasons.of_tracefs(f"cannot read {folder}", error) from error
        for own, field in program["fields"].items():
            if field not in found:
                raise ProbeRefusal(Reason.NO_TRACEPOINT, f"this kernel's tracepoint {name} has no field {field}")
            fields[own] = found[field]
    return ids, fields


def read_fields(text: str) -> dict[str, tuple[int, int]]:
    """Offset and size of the fields that a tracepoint's file `format` lists, as far as a program can load them whole.

    Source: kernel/trace/trace_events.c (f_show).
    """
    found = {name: (int(offset), int(size)) for name, offset, size in _FIELD.findall(text)}
    return {name: (offset, size) for name, (offset, size) in found.items() if size in (1, 2, 4, 8)}


def _find_tracefs() -> str:
    """Return the path of tracefs. Where it is not mounted, mount it in a mount namespace that ends with this
    process."""
    for root in TRACEFS:
        try:
            Path(root, "events").stat()
        except PermissionError as error:
            if Path(root).is_mount():
                raise reasons.of_tracefs(f"cannot read {root}", error) from error
        except OSError:  # not there
            continue
        else:
            return root
    libc = ctypes.CDLL(None, use_errno=True)
    failed = (
        libc.unshare(_CLONE_NEWNS)
        or libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None)
        or libc.mount(b"tracefs", TRACEFS[0].encode(), b"tracefs", 0, None)
    )
    if failed:
        code = ctypes.get_errno()
        what = f"tracefs is not to be seen at {' or '.join(TRACEFS)} and cannot be mounted"
        refusal = reasons.of_error(what, OSError(code, os.strerror(code)))
        is_permission = refusal.reason is Reason.NO_PERMISSION
        raise refusal if is_permission else ProbeRefusal(Reason.NO_TRACEFS, refusal.text)
    return TRACEFS[0]


if __name__ == "__main__":
    # If the parent's thread ends, nothing else ends this process, and it may hang.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.alarm(int(sys.argv[2]))
    main(socket.socket(fileno=int(sys.argv[1])))
