"""The tree of a host within what others collected: a capture, a sosreport, or a must-gather, which has none.

Sources: sos, sos/archive.py (one folder `sosreport-HOST-DATE`); openshift/must-gather and the gather-sysinfo of
openshift/cluster-node-tuning-operator (`IMAGE/nodes/NODE/sysinfo.tgz` has /proc and /sys of a node).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from numaudit.errors import InputError

_OF_A_MUST_GATHER = ("cluster-scoped-resources", "host_service_logs")
_SYSINFO = "nodes/*/sysinfo.tgz"
_MOST_NAMED = 3


def tree_in(folder: Path, given: Path) -> Path:
    """The folder that holds proc or sys: this one, or the only one in it that does.

    `given` is what the user gave; one that is no folder is returned as it is. Raises InputError where no folder holds
    proc or sys, or several do.
    """
    try:
        if not folder.is_dir():
            return folder
        trees = [folder] if _is_tree(folder) else [one for one in _folders_in(folder) if _is_tree(one)]
    except OSError as error:
        raise InputError(f"--root {given}: {error.strerror}; give a folder that `numaudit capture` wrote") from error
    if len(trees) == 1:
        return trees[0]
    if trees:
        raise InputError(f"--root {given}: holds {len(trees)} trees; give one, such as {trees[0].name}, by itself")
    raise InputError(f"--root {given}: {_lack_of(folder)}")


def _is_tree(folder: Path) -> bool:
    return (folder / "proc").is_dir() or (folder / "sys").is_dir()


def _folders_in(folder: Path) -> Iterator[Path]:
    """Not behind links: these may lead to the host of the reader."""
    return (one for one in sorted(folder.iterdir()) if one.is_dir() and not one.is_symlink())


def _lack_of(folder: Path) -> str:
    try:
        if not any(folder.iterdir()):
            return "is empty; give what `numaudit capture` wrote"
        places = (folder, *_folders_in(folder), *(two for one in _folders_in(folder) for two in _folders_in(one)))
        gathered = next((one for one in places if any((one / name).is_dir() for name in _OF_A_MUST_GATHER)), None)
        found = [] if gathered is None else sorted(gathered.glob(_SYSINFO))
    except OSError:
        gathered, found = None, []
    if gathered is None:
        return "holds neither proc nor sys, so it is not a captured tree"
    if not found:
        return "is a must-gather without /proc and /sys of a node; give what `numaudit capture` wrote on the node"
    names = ", ".join(str(one.relative_to(folder)) for one in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return (
        f"is a must-gather, which has /proc and /sys of each node in an archive; unpack it and give one: {names}{more}"
    )
