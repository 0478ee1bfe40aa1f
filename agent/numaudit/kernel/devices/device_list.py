"""Device files that the processes of a cgroup may open: devices.list of cgroup v1, or the device programs of v2.

Source: Documentation/admin-guide/cgroup-v1/devices.rst.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Hierarchies
from numaudit.kernel.devices import device_program
from numaudit.kernel.devices.pci import FileNumbers
from numaudit.kernel.host import Host, read_text

_LINE = re.compile(r"([abc]) (\d{1,10}|\*):(\d{1,10}|\*) ([rwm]{1,3})", re.ASCII)
_NO_SUCH_FILE = FileNumbers("char", 4094, (1 << 20) - 2)
"""Numbers that no driver has: a list that names it names everything."""


class ListedFiles(Struct, frozen=True):
    """The files of a list, rules with a star included."""

    rules: Sequence[tuple[str, int | None, int | None]]
    """Type (a, b or c), major and minor; None = any."""

    def allows(self, file: FileNumbers) -> bool:
        """May it be read and written?"""
        return any(
            type_ in ("a", file.type[0]) and major in (None, file.major) and minor in (None, file.minor)
            for type_, major, minor in self.rules
        )


def allowed(
    host: Host, hierarchies: Hierarchies, group: str, files: Callable[[], Sequence[FileNumbers]]
) -> tuple[FileNumbers, ...] | None:
    """Those of the files that a cgroup may open; None = it may open all, so its list says nothing.

    Raises OSError, ParseError, Unavailable where the list may not be read, or is not understood.
    """
    if hierarchies.devices is not None:
        try:
            allows = parse(read_text(f"{hierarchies.devices}{group}/devices.list")).allows
        except FileNotFoundError:
            raise Unavailable("its cgroup is not in the hierarchy of devices") from None
        return None if allows(_NO_SUCH_FILE) else tuple(filter(allows, files()))
    if not host.is_live or hierarchies.unified is None:
        raise Unavailable("a capture of cgroup v2 has no device programs")
    programs = device_program.read(Path(f"{hierarchies.unified}{group}"))
    if all(device_program.allows(one, _NO_SUCH_FILE) for one in programs):
        return None
    return tuple(file for file in files() if all(device_program.allows(one, file) for one in programs))


def parse(text: str) -> ListedFiles:
    """devices.list; rules that only let make files, or let files be read or written alone, are left out."""
    return ListedFiles(tuple(_rules(text)))


def _rules(text: str) -> Iterator[tuple[str, int | None, int | None]]:
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match is not None and {"r", "w"} <= set(match[4]):
            yield match[1], _number(match[2]), _number(match[3])


def _number(text: str) -> int | None:
    return None if text == "*" else int(text)
