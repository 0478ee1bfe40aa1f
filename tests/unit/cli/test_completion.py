"""What a shell completes: verbs, values, names of containers, by the files that the wheel installs."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from hosts.node_tree import NodeTree
from numaudit.api.selection import KEYS
from numaudit.cli.main import main
from numaudit.evaluation.ranks.rank import NOT_WHERE_BOUND
from numaudit.evaluation.verdicts import REMEDIES
from screens.pages import TOP

SHARE = TOP / "share"
BASH = SHARE / "bash-completion/completions/numaudit"
ZSH = SHARE / "zsh/site-functions"
FISH = SHARE / "fish/vendor_completions.d/numaudit.fish"


def _completed(*words: object, begun: str = "") -> list[str]:
    shell = ShellComplete(main, {}, "numaudit", "_NUMAUDIT_COMPLETE")
    return [item.value for item in shell.get_completions([*map(str, words)], begun)]


SHELLS = {
    "bash": (
        ["--rcfile", "rc", "-i"],
        f"""PS1=READY; source {BASH}
        show() {{ printf %s "$READLINE_LINE" > line; echo SHO''WN; }}
        bind -x '"\\C-g": show'""",
    ),
    "zsh": (
        ["-i"],
        f"""PS1=READY; fpath=({ZSH} $fpath); autoload -U compinit; compinit -D -u
        show() {{ print -rn -- "$BUFFER" > line; echo SHO''WN }}
        zle -N show; bindkey '^g' show""",
    ),
    "fish": (
        ["--no-config", "-i", "-C", "source rc"],
        f"""function fish_prompt; echo -n READY; end
        function fish_right_prompt; end
        source {FISH}
        function show; printf %s (commandline) > line; echo SHO''WN; end
        bind \\cg show""",
    ),
}
"""Shell -> its options, and what has it complete by our file and write its line into a file at Ctrl-G."""


def _line_after_tab(shell: str, line: str, folder: Path) -> str:
    """What a shell at a terminal makes of a line."""
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    options, setup = SHELLS[shell]
    for name in ("rc", ".zshrc"):
        (folder / name).write_text(f"{setup}\n")
    environment = {**_environment(folder), "TERM": "dumb", "ZDOTDIR": str(folder), "HISTFILE": ""}
    mine, its = pty.openpty()
    with subprocess.Popen(
        ["setsid", "--ctty", shell, *options], stdin=its, stdout=its, stderr=its, env=environment, cwd=folder
    ) as process:
        os.close(its)
        try:
            _read_until(mine, b"READY")
            os.write(mine, f"{line}\t\x07".encode())
            _read_until(mine, b"SHOWN")
        finally:
            process.kill()
            os.close(mine)
    return (folder / "line").read_text()


def _read_until(terminal: int, end: bytes) -> bytes:
    text = b""
    while end not in text:
        text += os.read(terminal, 65536)
    return text


def _environment(home: Path) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "HOME": str(home)}


def test_the_names_of_verdicts_are_completed() -> None:
    assert set(_completed("report", "--fail-on")) == {"misaligned", *REMEDIES, *NOT_WHERE_BOUND}
    assert _completed("report", "--fail-on", begun="dr") == ["drifted"]


def test_a_list_of_verdicts_goes_on_after_its_comma_without_those_that_it_has() -> None:
    assert _completed("report", "--verdict", begun="drifted,s") == ["drifted,spilled", "drifted,split"]
    assert _completed("report", "--verdict", begun="spilled,s") == ["spilled,split"]


def test_the_keys_of_an_order_are_completed() -> None:
    assert _completed("report", "--sort") == list(KEYS)
    assert _completed("report", "-o", begun="w") == ["wide"]


@pytest.fixture
def host(fixtures: Path) -> Path:
    return fixtures / "systemd-crio"


def test_pods_and_containers_are_completed_by_every_name_that_finds_them(host: Path) -> None:
    assert _completed("report", "--root", host, begun="web") == ["web-5c9", "web-5c9/nginx"]
    assert _completed("report", "--root", host, begun="shop/") == ["shop/web-5c9", "shop/web-5c9/nginx"]
    assert _completed("report", "--root", host, "-n", "jobs", begun="") == [
        "batch-x7k2p", "batch-x7k2p/job", "jobs/batch-x7k2p", "jobs/batch-x7k2p/job",
    ]  # fmt: skip


def test_units_are_completed_by_their_name_and_cgroups_after_a_slash(host: Path) -> None:
    assert _completed("report", "--root", host, begun="crio") == ["crio.service"]
    assert _completed("report", "--root", host, begun="/system.slice/crio") == ["/system.slice/crio.service"]


def test_a_name_that_a_shell_would_read_otherwise_is_left_out(host: Path) -> None:
    offered = [*_completed("report", "--root", host), *_completed("report", "--root", host, begun="/")]
    assert len(offered) > 20
    assert all(shlex.split(name) == [name] for name in offered)
    assert not any("name with spaces" in name for name in offered)


def test_what_explain_is_about_is_completed_by_the_same_names(host: Path) -> None:
    assert _completed("explain", "--root", host, begun="web") == ["web-5c9", "web-5c9/nginx"]


def test_namespaces_are_completed(host: Path) -> None:
    assert _completed("report", "--root", host, "-n") == ["jobs", "kube-system", "shop"]


def test_a_host_that_cannot_be_read_and_an_archive_complete_nothing(tmp_path: Path) -> None:
    archive = tmp_path / "host.tar.xz"
    archive.touch()
    assert _completed("report", "--root", archive) == []
    assert _completed("report", "--root", tmp_path) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("state", "ver"), ["verify"]),
        (("report", "--verdict", "drifted,s"), ["drifted,spilled", "drifted,split"]),
        (("assert", "--max-s"), ["--max-spilled"]),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_shell_completes_by_the_file_that_is_installed_for_it(
    shell: str, words: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    line = shlex.join(("numaudit", *words))
    by_bash = f"source {BASH}; COMP_WORDS=({line}) COMP_CWORD={len(words)}; _numaudit_completion numaudit"
    command = {
        "bash": ["bash", "--norc", "-euc", by_bash + '; printf "%s\\n" "${COMPREPLY[@]}"'],
        "fish": ["fish", "--no-config", "-c", f"source {FISH}; complete -C {shlex.quote(line)}"],
    }[shell]
    done = subprocess.run(command, env=_environment(tmp_path), capture_output=True, text=True, check=False)
    assert [offered.split("\t")[0] for offered in done.stdout.splitlines()] == expected, done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_at_a_terminal_completes_what_is_typed(shell: str, host: Path, tmp_path: Path) -> None:
    assert _line_after_tab(shell, "numaudit state ver", tmp_path).rstrip() == "numaudit state verify"
    typed = f"numaudit report --root {host} shop/web-5c9/"
    assert _line_after_tab(shell, typed, tmp_path).rstrip() == f"{typed}nginx"


HOSTILE_UNITS = (
    "aa-$(touch pwned).service", "aa-`touch pwned`.service", "aa-;touch pwned;.service", "aa-'\"x.service",
    "aa-\ntouch pwned\n.service", "aa-\r.service", "aa-\x1b[31m.service", "aa-*.service", "aa-{b,c}.service",
    "aa-~.service", "aa-!1.service", "aa-\\.service", "aa-|touch pwned.service", "aa-<rc>.service", "aa-é.service",
    "aa-\u202ecod.service", "--aa.service", "=aa.service", "~aa.service", "#aa.service",
)  # fmt: skip


@pytest.fixture
def hostile_host(tmp_path: Path) -> Path:
    tree = NodeTree(tmp_path / "host")
    for name in (*HOSTILE_UNITS, "aa-plain:1@x.service"):
        tree.group(f"/system.slice/{name}", (4096, 0))
    return tree.root


def test_names_that_a_shell_would_read_otherwise_are_left_out_whatever_they_are(hostile_host: Path) -> None:
    for begun in ("", "aa", "-", "=", "~", "#"):
        offered = _completed("report", "--root", hostile_host, begun=begun)
        assert {one for one in offered if "aa" in one} <= {"aa-plain:1@x.service"}
    assert _completed("report", "--root", hostile_host, begun="/system.slice/a") == [
        "/system.slice/aa-plain:1@x.service"
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_hostile_name_is_not_run_nor_offered_by_a_shell(shell: str, hostile_host: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    typed = f"numaudit report --root {hostile_host} aa"
    line = _line_after_tab(shell, typed, folder)
    assert line.rstrip().replace("\\", "") == f"{typed}-plain:1@x.service"
    assert not [*tmp_path.rglob("pwned")]
