"""Only `kernel/files.py` looks at files of the observed host, where nothing leads out of a capture's root."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import numaudit

PACKAGE = Path(numaudit.__file__).parent
OPENER = ("kernel/files.py", "kernel/in_root.py")
OF_OS = {"access", "chdir", "chmod", "fwalk", "link", "listdir", "lstat", "makedirs", "mkdir", "mkfifo", "open",
    "readlink", "remove", "rename", "replace", "rmdir", "scandir", "stat", "statvfs", "symlink", "truncate", "unlink",
    "walk"}  # fmt: skip
OF_OS_PATH = {"exists", "getmtime", "getsize", "isdir", "isfile", "islink", "ismount", "lexists", "realpath",
    "samefile"}  # fmt: skip
OF_PATH = {"chmod", "exists", "glob", "hardlink_to", "is_dir", "is_fifo", "is_file", "is_mount", "is_socket",
    "is_symlink", "iterdir", "lstat", "mkdir", "open", "read_bytes", "read_text", "readlink", "rename", "resolve",
    "rglob", "rmdir", "samefile", "stat", "symlink_to", "touch", "unlink", "walk", "write_bytes",
    "write_text"}  # fmt: skip
EXCEPTIONS: dict[str, tuple[set[str], str]] = {
    "nrt/apiserver/client.py": ({".exists"}, "the user's kubeconfig, the pod's service account"),
    "capture/archive.py": (
        {".hardlink_to", ".is_dir", ".mkdir", ".open", ".symlink_to", "os.path.realpath"},
        "the user's archive, and a private temporary folder whose links are checked before anything is read",
    ),
    "capture/collector.py": (
        {"open", "os.listdir", "os.path.isfile", "os.readlink", "os.stat", "os.walk"},
        "runs on another host by itself: known names below its root, and a kubelet's in the host's own namespaces",
    ),
    "capture/layout.py": (
        {".glob", ".is_dir", ".is_symlink", ".iterdir"},
        "the user's folder, until its root is known",
    ),
    "capture/new_folder.py": (
        {".exists", ".mkdir", ".rmdir", "os.listdir", "os.mkdir", "os.open", "os.rename", "os.rmdir", "os.symlink"}
        | {"os.unlink", ".glob", ".resolve"},
        "the capture that is written: by descriptors, and through no link; temporary folders of our own",
    ),
    "capture/remote.py": (
        {".lstat", ".open", ".read_text", "os.walk"},
        "our own program, and an archive in a temporary folder of our own",
    ),
    "capture/tree.py": ({".exists", ".is_dir", ".iterdir"}, "what is where the capture is to be"),
    "cli/main.py": ({"os.open"}, "/dev/null in place of a closed output"),
    "cli/manager/assert_work.py": ({".open", ".write_bytes"}, "the JUnit file that the user names"),
    "cli/manager/run_work.py": ({".exists"}, "the cgroup of this very run"),
    "cli/manager/fit_work.py": ({".exists", ".is_file"}, "files that the user names"),
    "cli/parameters.py": ({".is_dir"}, "the user's --root"),
    "cli/observe/report_work.py": ({".is_file"}, "is this folder a checkout?"),
    "cli/observe/doctor.py": ({".mkdir"}, "numaudit's own folder"),
    "cli/options.py": ({"os.path.exists", "os.path.isfile"}, "files that the user names"),
    "config/loading.py": ({".stat"}, "numaudit's settings"),
    "config/yaml_document.py": ({".resolve"}, "names of the user's files"),
    "config/yaml_file.py": ({".is_fifo"}, "numaudit's settings"),
    "daemon/ticks/health.py": ({"os.listdir", "os.stat"}, "the agent's own descriptors"),
    "kernel/cgroup_writer.py": ({".mkdir", ".rmdir"}, "cgroups of our own on the running host"),
    "kernel/devices/descriptors.py": (
        {"os.readlink", "os.scandir"},
        "in a folder that `files` opened; no link is followed",
    ),
    "kernel/host.py": (
        {".exists", ".is_dir", ".resolve", "os.path.lexists", "os.path.realpath"},
        "the root itself; the user's pipe",
    ),
    "kernel/own_files.py": ({".unlink", "os.open", "os.rename", "os.stat"}, "numaudit's own settings, keys and state"),
    "kubelet/host_files.py": ({".open", ".resolve"}, "the checkpoint that the user names"),
    "net/target.py": ({".open", ".stat"}, "tokens and authorities that the settings name, or the pod's own"),
    "pmu/families.py": ({".read_text"}, "a file of the package"),
    "probes/counters/plan_events.py": ({".open"}, "no file: perf events"),
    "probes/loading/compile.py": ({".glob", ".mkdir", ".read_text", ".write_text"}, "sources of the package"),
    "probes/loading/compiler.py": ({".is_file"}, "headers of the package"),
    "probes/loading/loader.py": ({".exists"}, "the Python that is to run"),
    "probes/loading/loader_child.py": ({".is_mount", ".read_text", ".stat"}, "tracefs of the running kernel"),
    "probes/loading/program_sources.py": ({".is_dir", ".read_bytes", ".read_text"}, "sources of the package"),
    "probes/reasons.py": ({".read_text"}, "settings of the running kernel, and this very process"),
    "run/cgroup.py": ({".rmdir"}, "a cgroup of our own"),
    "run/holding.py": (
        {".glob", ".mkdir", ".resolve", ".rmdir", ".unlink", "os.open"},
        "numaudit's own state, in the user's --state-dir; cgroups of our own",
    ),
    "views/page/markup.py": ({".read_text"}, "files of the package"),
    "views/top/app.py": ({".open"}, "no file: a row of the screen"),
    "encoding/yaml_values.py": ({".resolve"}, "no file: a rule of YAML"),
}
"""Module -> what it calls, and why those files are not the observed host's."""


def _calls(module: str) -> set[str]:
    """Calls that look at files, by their names as they are written."""
    nodes = [*ast.walk(ast.parse((PACKAGE / module).read_text()))]
    imported = {alias.asname or alias.name for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}  # fmt: skip
    return {name for node in nodes if isinstance(node, ast.Call) and (name := _name(node.func, imported))}


def _name(called: ast.expr, imported: set[str]) -> str | None:
    if isinstance(called, ast.Name):
        return "open" if called.id == "open" else None
    if not isinstance(called, ast.Attribute):
        return None
    receiver = ast.unparse(called.value)
    if receiver in ("os", "os.path"):
        return f"{receiver}.{called.attr}" if called.attr in (OF_OS if receiver == "os" else OF_OS_PATH) else None
    is_path = called.attr in OF_PATH and (receiver not in imported or receiver == "Path")
    return f".{called.attr}" if is_path else None


def test_nothing_else_opens_lists_or_examines_a_file_of_the_host() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        module = str(path.relative_to(PACKAGE))
        if module not in OPENER and (calls := _calls(module)):
            found[module] = calls
    assert dict(found) == {module: calls for module, (calls, _) in EXCEPTIONS.items()}
