"""Compile BPF texts with bcc. Only a process of its own may: bcc and its LLVM take some 120 MB.

Runs under whatever Python has bcc: plain Python 3.9, its standard library, and nothing of numaudit but what the loader
process has. bcc makes the maps of a text while it compiles it; they are thrown away with its module.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numaudit.probes import reasons
from numaudit.probes.loading import bytecode
from numaudit.probes.loading.bytecode import Bytecode, MapShape
from numaudit.probes.reasons import ProbeRefusal, Reason

if TYPE_CHECKING:
    import bcc


def check_bcc() -> str:
    """Its version. Raises ProbeRefusal."""
    try:
        import bcc  # noqa: PLC0415 (the only module that may)
    except (ImportError, OSError) as error:
        raise reasons.of_import(error) from error
    if not hasattr(bcc, "BPF"):
        raise ProbeRefusal(Reason.NO_BCC, f"the module bcc at {bcc.__file__} is another project of that name")
    source = os.environ["BCC_KERNEL_SOURCE"]
    if not Path(source, "include/linux/kconfig.h").is_file():
        raise ProbeRefusal(Reason.NO_HEADERS, f"BCC_KERNEL_SOURCE={source} holds no include/linux/kconfig.h")
    return str(bcc.__version__)


def compile_text(text: str, defines: Mapping[str, int]) -> Bytecode:
    """Raises ProbeRefusal. Needs the right to make maps; the words of clang go through standard error, a file."""
    import bcc  # noqa: PLC0415

    flags = [f"-D{name}={value}" for name, value in {**defines, **bytecode.marks(text)}.items()]
    before = os.fstat(sys.stderr.fileno()).st_size
    try:
        module = bcc.BPF(text=text, cflags=flags)
    except Exception as error:
        raise reasons.of_compile(_log_since(before) or str(error)) from error
    try:
        return _extract(module, text)
    finally:
        module.cleanup()


def _extract(compiled: bcc.BPF, text: str) -> Bytecode:
    from bcc import lib  # noqa: PLC0415

    def of_table(query: str, number: int, result: type = ctypes.c_int) -> Any:  # noqa: ANN401 (as the result says)
        function = lib[query]
        function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t), result
        return function(compiled.module, number)

    numbers = range(lib.bpf_num_tables(ctypes.c_void_p(compiled.module)))
    names = {number: of_table("bpf_table_name", number, ctypes.c_char_p).decode() for number in numbers}
    shape = ("type", "key_size", "leaf_size", "max_entries", "flags")
    maps = {
        name: MapShape(*(of_table(f"bpf_table_{query}_id", number) for query in shape))
        for number, name in names.items()
    }
    descriptors = {of_table("bpf_table_fd_id", number): name for number, name in names.items()}
    programs = {}
    for number in range(lib.bpf_num_functions(compiled.module)):
        function = lib.bpf_function_name(compiled.module, number)
        programs[function.decode()] = bytecode.of_marked(compiled.dump_func(function), text, descriptors)
    return Bytecode(programs, maps)


def _log_since(start: int) -> str:
    size = os.fstat(sys.stderr.fileno()).st_size - start
    return os.pread(sys.stderr.fileno(), size, start).decode("utf-8", "replace")
