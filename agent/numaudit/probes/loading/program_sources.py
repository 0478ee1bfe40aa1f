"""The texts of the BPF programs, and the bytecode that is stored with them.

Bytecode is stored with a digest of everything it was compiled from, and is not used for any other text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

import numaudit
from numaudit.errors import InputError

HEADERS = ("probe.bpf.h", "cgroup_switch.bpf.h")
"""Before each text."""
_PACKAGE = Path(numaudit.__file__).parent


class ProgramSource(Struct, frozen=True):
    """Source that is compiled as one."""

    name: str
    whole: str
    """With the headers."""
    defines: Mapping[str, int] = field(default_factory=dict)
    """Macros that change the code itself; each value of them is compiled by itself."""

    @property
    def digest(self) -> str:
        """Of everything that is compiled."""
        return hashlib.sha256(json.dumps([self.whole, dict(self.defines)], sort_keys=True).encode()).hexdigest()

    @property
    def file(self) -> str:
        """Of its bytecode."""
        return "-".join([self.name, *map(str, self.defines.values())]) + ".json"


def bpf_folder() -> Path:
    """Our BPF texts, their stub headers and their bytecode: in the installed package, or at the top of a checkout."""
    installed = _PACKAGE / "bpf"
    return installed if installed.is_dir() else _PACKAGE.parents[1] / "bpf"


def bytecode_folder() -> Path:
    return bpf_folder() / "bytecode"


def read_text(name: str, defines: Mapping[str, int], source: Path | None = None) -> ProgramSource:
    """One text, by default `NAME.bpf.c` among our own. Raises InputError when it is missing, and OSError."""
    files = [*(bpf_folder() / header for header in HEADERS), source or bpf_folder() / f"{name}.bpf.c"]
    return ProgramSource(name, "".join(f'#line 1 "{path.name}"\n{_read(path)}\n' for path in files), defines)


def find_bytecode(text: ProgramSource) -> dict[str, Any] | str:
    """As `Bytecode.pack` made it; or why there is none for this text, and it has to be compiled. Raises OSError."""
    path = bytecode_folder() / text.file
    try:
        found = json.loads(path.read_bytes())
        if found["digest"] != text.digest:
            return f"{path.name} was compiled from another text"
    except FileNotFoundError:
        return f"there is no bytecode {path.name}"
    except (ValueError, KeyError, TypeError) as error:
        return f"{path} holds no bytecode: {error}"
    return dict(found)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"the BPF program {path} is missing; reinstall numaudit") from None
