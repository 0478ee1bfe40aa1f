"""Every verb, run by an unprivileged user on a node whose kubelet keeps its folder to itself (0750)."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixture_trees import FIXTURES
from hosts.tree_copies import lent
from numaudit.cli import main
from numaudit.kernel.host import Host
from processes.agent_process import PATIENCE

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter and write to: those of pytest are root's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture
def tree() -> Iterator[Path]:
    """A captured node that runs a kubelet, with the folder as the kubelet makes it."""
    with lent(FIXTURES / "kubernetes-four-nodes") as tree:
        (tree / "var/lib/kubelet").chmod(0o750)
        yield tree


@dataclass(frozen=True, slots=True)
class Done:
    """What a verb said."""

    returncode: int | None
    stdout: str
    stderr: str


def _run(folder: Path, *arguments: object, kubelet: Path | None = None) -> Done:
    """A verb by another user, in a fork: to start Python and import the verb again would take most of the time.

    With `kubelet` it looks at this very host, whose kubelet's folder that is.
    """
    words = list(map(str, arguments))
    out, err = folder / "stdout", folder / "stderr"
    verb = multiprocessing.get_context("fork").Process(target=_as_nobody, args=(folder, out, err, words, kubelet))
    verb.start()
    try:
        verb.join(PATIENCE)
        assert verb.exitcode is not None, f"{words} does not end"
    finally:
        verb.kill()
        verb.join()
    return Done(verb.exitcode, out.read_text(), err.read_text())


def _as_nobody(folder: Path, out: Path, err: Path, words: list[str], kubelet: Path | None) -> None:
    os.chdir(folder)
    for path, number in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    if kubelet is not None:
        live = Host(kubelet_root=str(kubelet))
        Host.here = staticmethod(lambda: live)  # type: ignore[method-assign]
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    code = main.call(words)
    sys.stderr.flush()
    os._exit(code)


def _source(report: dict[str, Any], name: str) -> dict[str, Any]:
    found = next(one for one in report["sources"] if one["source"] == name)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("hidden", ["var/lib/kubelet", "var/lib", "numaudit"])
@pytest.mark.parametrize("verb", ["report", "topology", "doctor"])
def test_a_verb_answers_what_it_can(folder: Path, tree: Path, verb: str, hidden: str) -> None:
    (tree / hidden).chmod(0o700)
    done = _run(folder, verb, "--root", tree, "-o", "json")
    assert "internal error" not in done.stdout + done.stderr
    assert done.returncode in (0, 1)
    assert json.loads(done.stdout)


def test_the_report_says_what_root_would_add(folder: Path, tree: Path) -> None:
    report = json.loads(_run(folder, "report", "--root", tree, "-o", "json").stdout)
    files = {one["file"]: one["problem"] for one in report["checkpoints"]}
    assert set(files.values()) == {"unreadable"}
    assert all(one["reason"].endswith("run as root") for one in report["sources"] if one["source"] in files)


def test_the_doctor_says_what_root_would_add(folder: Path, tree: Path) -> None:
    checks = json.loads(_run(folder, "doctor", "--root", tree, "-o", "json").stdout)["checks"]
    found = {one["name"]: one for one in checks}
    for name in ("kubelet", "memory_manager_state", "cpu_manager_state"):
        assert found[name]["state"] == "missing"
        assert found[name]["detail"].endswith("; run as root")


@pytest.mark.parametrize("hidden", ["var/lib/kubelet", "var/lib", "var"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("show",), ("verify",), ("show", "FILE"), ("verify", "FILE"), ("diff", "FILE"), ("diff", "FILE", "FILE"),
    ],
)  # fmt: skip
def test_a_checkpoint_that_may_not_be_read_is_no_answer(
    folder: Path, tree: Path, arguments: tuple[str, ...], hidden: str
) -> None:
    (tree / hidden).chmod(0o700)
    file = tree / "var/lib/kubelet/memory_manager_state"
    words = [str(file) if word == "FILE" else word for word in arguments]
    done = _run(folder, "state", *words, "--root", tree)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"numaudit: cannot read {file}: only root may read it; run as root\n"


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (("--config=/var/lib/kubelet/config.yaml",), "config.yaml"),
        (("--config-dir=/var/lib/kubelet/config.d",), "config.d"),
    ],
)
def test_configuration_that_may_not_be_read_is_named(
    folder: Path, tree: Path, flags: tuple[str, ...], what: str
) -> None:
    """Drop-in files, too: without them the settings are others."""
    (tree / "proc/347/cmdline").write_text("\0".join(["kubelet", *flags, ""]))
    report = json.loads(_run(folder, "report", "--root", tree, "-o", "json").stdout)
    assert (
        f"cannot read /var/lib/kubelet/{what}: Permission denied; run as root"
        in (_source(report, "kubelet configuration")["reason"])
    )


@pytest.mark.parametrize("verb", ["report", "doctor", "capture", "agent", "topology", "selftest", "state"])
def test_a_live_node_that_lets_nobody_in_is_no_internal_error(folder: Path, verb: str) -> None:
    kubelet = folder / "lib/kubelet"
    kubelet.mkdir(parents=True)
    (kubelet / "memory_manager_state").write_text("{}")
    kubelet.parent.chmod(0o750)
    arguments = {
        "capture": ("capture", "--duration", "0", "copy"),
        "selftest": ("doctor", "--selftest"),
        "agent": ("agent", "--listen", "no-such-address.invalid:1"),
        "state": ("state", "verify"),
    }.get(verb, (verb,))
    done = _run(folder, *arguments, kubelet=kubelet)
    assert "internal error" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode != 4
    if verb in ("capture", "state"):
        assert "run as root" in done.stderr
