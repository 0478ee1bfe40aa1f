"""The loader process: compiles and loads BPF programs with bcc, sends their descriptors, and ends.

Started by numaudit.probes.loader as `python -m numaudit.probes.loader_child SOCKET SECONDS`. It keeps bcc and
LLVM (some 120 MB) out of the agent. It runs under whatever Python has bcc: plain Python 3.9 and its
standard library, nothing of numaudit but the reasons and the system calls.

One SOCK_SEQPACKET message each way holds JSON: the requests in, then one answer for each probe, which
carries the descriptors of its programs and maps in the order that the answer names them.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numaudit.kernel import syscall
from numaudit.probes import reasons
from numaudit.probes.reasons import Reason, Refusal

if TYPE_CHECKING:
    import bcc

TRACEFS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_LARGEST_REQUEST = 1 << 20
_LARGEST_LOG = 1 << 16
_INSTRUCTION = 8
_PROG_LOAD, _TRACE_FENTRY = 5, 24  # enum bpf_cmd, enum bpf_attach_type
_LICENCE = ctypes.create_string_buffer(b"Dual BSD/GPL")
_CLONE_NEWNS = 0x00020000
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18
_PR_SET_PDEATHSIG = 1


def main(channel: socket.socket) -> None:
    """Answer the requests that wait on the channel."""
    message = json.loads(channel.recv(_LARGEST_REQUEST))
    headers, requests = message["headers"], message["probes"]
    try:
        _check_bcc()
    except Refusal as refusal:
        for request in requests:
            _send_refusal(channel, request["name"], refusal)
        return
    runnable = []
    for request in requests:
        try:
            request["tracepoint_ids"] = _tracepoint_ids(request)
            runnable.append(request)
        except Refusal as refusal:
            _send_refusal(channel, request["name"], refusal)
    for module, group in _compile(channel, headers, runnable):
        for request in group:
            _load(channel, module, request)


def _check_bcc() -> None:
    try:
        import bcc  # noqa: PLC0415 (the only place that may)
    except (ImportError, OSError) as error:
        raise reasons.of_import(error) from error
    if not hasattr(bcc, "BPF"):
        raise Refusal(Reason.NO_BCC, f"the module bcc at {bcc.__file__} is another project of that name")
    source = os.environ["BCC_KERNEL_SOURCE"]
    if not Path(source, "include/linux/kconfig.h").is_file():
        raise Refusal(Reason.NO_HEADERS, f"BCC_KERNEL_SOURCE={source} holds no include/linux/kconfig.h")


def _tracepoint_ids(request: dict[str, Any]) -> dict[str, int]:
    """The kernel's number of each tracepoint that the request's programs attach to."""
    names = [program["tracepoint"] for program in request["programs"] if program["tracepoint"]]
    if not names:
        return {}
    root = _find_tracefs()
    ids = {}
    for name in names:
        path = f"{root}/events/{name.replace(':', '/')}/id"
        try:
            ids[name] = int(Path(path).read_text(encoding="ascii"))
        except FileNotFoundError:
            raise Refusal(Reason.NO_TRACEPOINT, f"this kernel has no tracepoint {name}") from None
        except OSError as error:
            raise reasons.of_tracefs(f"cannot read {path}", error) from error
    return ids


def _find_tracefs() -> str:
    """Where tracefs is. Where it is not, mount it in a mount namespace that ends with this process."""
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
        raise refusal if is_permission else Refusal(Reason.NO_TRACEFS, refusal.text)
    return TRACEFS[0]


def _compile(
    channel: socket.socket, headers: list[dict[str, Any]], requests: list[dict[str, Any]]
) -> list[tuple[bcc.BPF, list[dict[str, Any]]]]:
    """Modules and the requests they serve: all in one, or one each when that fails."""
    if not requests:
        return []
    try:
        return [(_compile_text([*headers, *requests]), requests)]
    except Refusal as refusal:
        if len(requests) == 1:
            _send_refusal(channel, requests[0]["name"], refusal)
            return []
    return [pair for request in requests for pair in _compile(channel, headers, [request])]


def _compile_text(texts: list[dict[str, Any]]) -> bcc.BPF:
    import bcc  # noqa: PLC0415

    text = "".join(f'#line 1 "{one["file"]}"\n{one["text"]}\n' for one in texts)
    flags = [f"-D{name}={value}" for one in texts for name, value in one["defines"].items()]
    before = _written()
    try:
        return bcc.BPF(text=text, cflags=flags)
    except Exception as error:
        raise reasons.of_compile(_log_since(before) or str(error)) from error


def _load(channel: socket.socket, module: bcc.BPF, request: dict[str, Any]) -> None:
    answer: dict[str, Any] = {"name": request["name"], "programs": [], "maps": request["maps"]}
    answer["tracepoint_ids"] = request["tracepoint_ids"]
    answer["refused"] = {}
    descriptors = []
    for program in request["programs"]:
        try:
            descriptors.append(_load_program(module, program))
            answer["programs"].append(program["function"])
        except Refusal as refusal:
            if not program["may_fail"]:
                _send_refusal(channel, request["name"], refusal)
                return
            answer["refused"][program["function"]] = (refusal.reason.value, refusal.text)
    descriptors += [module[name.encode()].map_fd for name in request["maps"]]
    socket.send_fds(channel, [json.dumps(answer).encode()], descriptors)


def _load_program(module: bcc.BPF, program: dict[str, Any]) -> int:
    function, kind = program["function"], program["type"]
    if program["btf_id"] is not None:
        return _load_tracing(function, kind, module.dump_func(function.encode()), program["btf_id"])
    before = _written()
    ctypes.set_errno(0)
    try:
        return int(module.load_func(function.encode(), kind).fd)
    except Exception as error:
        # bcc calls every EPERM "Need super-user privileges": the errno and the log say more.
        code = ctypes.get_errno()
        if code == 0:
            raise Refusal(Reason.COMPILE_ERROR, f"{function}: {error}") from error
        raise reasons.of_load(function, code, _log_since(before)) from error


def _load_tracing(function: str, kind: int, instructions: bytes, btf_id: int) -> int:
    """Without bcc, which attaches programs to functions by the names of ours, and all at once.

    Source: include/uapi/linux/bpf.h (union bpf_attr, of BPF_PROG_LOAD).
    """
    code = ctypes.create_string_buffer(instructions, len(instructions))
    log = ctypes.create_string_buffer(_LARGEST_LOG)
    program = (kind, len(instructions) // _INSTRUCTION, ctypes.addressof(code), ctypes.addressof(_LICENCE))
    hook = struct.pack("=8x16xII36xII8x", 0, _TRACE_FENTRY, btf_id, 0)

    def load(log_level: int) -> int:
        words = (log_level, len(log), ctypes.addressof(log)) if log_level else (0, 0, 0)
        attributes = ctypes.create_string_buffer(struct.pack("=IIQQIIQ", *program, *words) + hook)
        return syscall.call("bpf", _PROG_LOAD, ctypes.addressof(attributes), len(attributes) - 1)

    try:
        return load(log_level=0)
    except OSError as error:
        code_of_error = error.errno or 0
    try:
        return load(log_level=1)  # for the verifier's words, which may not fit where nothing is wrong
    except OSError:
        raise reasons.of_load(function, code_of_error, log.value.decode("utf-8", "replace")) from None


def _send_refusal(channel: socket.socket, name: str, refusal: Refusal) -> None:
    channel.send(json.dumps({"name": name, "reason": refusal.reason.value, "text": refusal.text}).encode())


def _written() -> int:
    """Bytes on standard error so far: the parent gave us a file there, so what clang writes can be read back."""
    return os.fstat(sys.stderr.fileno()).st_size


def _log_since(start: int) -> str:
    size = _written() - start
    return os.pread(sys.stderr.fileno(), size, start).decode("utf-8", "replace")


if __name__ == "__main__":
    # If the parent's thread ends, nothing else ends this process, and it may hang.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.alarm(int(sys.argv[2]))
    main(socket.socket(fileno=int(sys.argv[1])))
