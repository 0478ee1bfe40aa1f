"""Compile the BPF texts and store their bytecode, as root, with bcc.

    python -m numaudit.probes.loading.compile [FOLDER]

To be run whenever a text changes, on Debian bookworm: the same texts and the same bcc give the same files everywhere.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from numaudit.errors import InputError, NumauditError
from numaudit.probes.loading import compiler, program_sources
from numaudit.probes.loading.program_sources import ProgramSource

BCC = "0.26.0"
"""Debian bookworm's, which alone makes the files that are stored."""
_FORMS = re.compile(r"^ \* Forms: +(\w+) = ([\d, ]+)$", re.MULTILINE)
"""In the comment that begins a text: the macro that changes the code itself, and its values."""


def stored_texts() -> Iterator[ProgramSource]:
    """All texts, in every form that is stored. Raises InputError and OSError."""
    for path in sorted(program_sources.bpf_folder().glob("*.bpf.c")):
        name = path.name.removesuffix(".bpf.c")
        forms = _FORMS.search(path.read_text(encoding="utf-8"))
        for defines in [{forms[1]: int(value)} for value in forms[2].split(",")] if forms else [{}]:
            yield program_sources.read_text(name, defines)


def compile_all(folder: Path) -> None:
    """Write a file for each stored text. Raises ProbeRefusal, InputError and OSError."""
    os.environ["BCC_KERNEL_SOURCE"] = str(program_sources.bpf_folder())
    version = compiler.check_bcc()
    if version != BCC:
        raise InputError(f"bcc {version} is here; stored bytecode is made with {BCC}, so run this on Debian bookworm")
    folder.mkdir(exist_ok=True)
    for text in stored_texts():
        document = {"digest": text.digest, **compiler.compile_text(text.whole, text.defines).pack()}
        (folder / text.file).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main(folder: Path) -> None:
    """Ends the process with a message where something is wrong."""
    own_words = os.dup(sys.stderr.fileno())
    with tempfile.TemporaryFile() as log:  # clang's words are read back from standard error
        os.dup2(log.fileno(), sys.stderr.fileno())
        try:
            compile_all(folder)
        except (NumauditError, OSError) as error:
            sys.exit(str(error))
        finally:
            os.dup2(own_words, sys.stderr.fileno())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else program_sources.bytecode_folder())
