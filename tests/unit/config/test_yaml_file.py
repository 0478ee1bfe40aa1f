"""Files of settings that would cost more to parse than they are worth."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from numaudit.config.loading import load
from numaudit.daemon.web.rules import read_rules
from numaudit.errors import InputError


def _bomb() -> str:
    """Ten references to ten references to ...: 10 ** 30 values in some 2 KiB."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{one}: &a{one} [{','.join([f'*a{one - 1}'] * 10)}]" for one in range(1, 31)]
    return "\n".join([*lines, "probes: *a30"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (_bomb(), "file.yaml:2: a reference (*) to another value: write that out"),
        ("a: &a [*a]", "file.yaml:1: a reference (*) to another value: write that out"),
        ("[" * 200_000, "file.yaml:1: nested deeper than 20 levels"),
        ("{a: " * 21, "file.yaml:1: nested deeper than 20 levels"),
        ("#" * (2 << 20), "the file is larger than 262144 bytes"),
    ],
)
def test_a_file_that_asks_for_too_much_is_refused(tmp_path: Path, body: str, message: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(body, encoding="utf-8")
    for read in (lambda: load(path, {}, []), lambda: read_rules(path)):
        with pytest.raises(InputError) as raised:
            read()
        assert message in str(raised.value)


def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InputError, match=r"cannot read the settings .*/pipe: it is a pipe; give a file"):
        load(path, {}, [])
