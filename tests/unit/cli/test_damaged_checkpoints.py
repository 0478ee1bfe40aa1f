"""Every verb on a node with a damaged checkpoint: an answer or an error with its reason, never an internal error."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
import pytest

from command_tree import commands
from kubelets.damaged_files import DAMAGES, KINDS, files_of
from numaudit.checkpoints.formats.file import CPU, DEVICES, MEMORY, CheckpointKind
from numaudit.cli import EXIT_INTERNAL
from numaudit.cli.main import call
from numaudit.errors import InputError, Unavailable
from numaudit.kernel.host import Host
from numaudit.run.holding import StateFolder

Capture = pytest.CaptureFixture[str]

POD = "gu-two-numanode"
MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: new}
spec:
  containers:
  - {name: app, resources: {limits: {cpu: 1, memory: 100Mi}}}
"""

LINES: Mapping[str, Callable[[Mapping[CheckpointKind, Path], Path], list[list[str]]]] = {
    "report": lambda _, __: [[POD], ["-o", "wide"], ["-o", "html"], ["--redact", "-o", "json"]],
    "top": lambda _, __: [[]],
    "topology": lambda _, __: [[], ["-o", "json"]],
    "state diff": lambda files, damaged: [
        [str(damaged)],
        *([str(damaged), str(other)] for other in files.values() if other != damaged),
        *([str(other), str(damaged)] for other in files.values() if other != damaged),
    ],
    "forecast": lambda _, __: [[], ["--reboot", "-o", "json"], ["--kubernetes-version", "1.37"]],
    "headroom": lambda _, __: [[], ["-o", "json"]],
    "nrt": lambda _, __: [[], ["-o", "json"]],
    "state show": lambda _, damaged: [[], ["-o", "json"], [str(damaged)]],
    "state verify": lambda _, damaged: [[], ["--kubernetes-version", "1.31"], [str(damaged)]],
    "explain": lambda files, _: [
        [POD],
        [POD, "-o", "json"],
    ],
    "fit": lambda files, _: [
        ["-f", "pod.yaml"],
        ["-f", "pod.yaml", "--make-room", "-o", "json"],
        ["-f", "pod.yaml", "--kubernetes-version", "1.31"],
    ],
    "doctor": lambda _, __: [[]],
    "ranks": lambda _, __: [[]],
    "setup": lambda _, __: [["--all"], ["-o", "json"], ["--kubelet-config"]],
}
"""What follows each verb that reads a captured tree with a damaged file, without its --root."""
TRIES_FEW = os.environ.get("HYPOTHESIS_PROFILE") == "check"
"""`make check` tries the first line of a verb, and each damage in one kind of file for each verb; CI tries all."""
WITHOUT_A_TREE = {"agent"}
"""Verbs with --root that never end: the agent makes the report of `report`."""


def test_every_verb_that_reads_a_tree_is_tried() -> None:
    reads = {
        " ".join(path)
        for path, command in commands()
        if not isinstance(command, click.Group) and any(one.name == "root" for one in command.params)
    }
    assert reads == {*LINES, *WITHOUT_A_TREE}


@pytest.fixture(scope="module")
def node(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Host:
    folder = tmp_path_factory.mktemp("node")
    (folder / "pod.yaml").write_text(MANIFEST)
    host = Host.under(shutil.copytree(fixtures / "kubernetes-four-nodes", folder / "host", symlinks=True))
    _shorten(host)
    files_of(host)
    return host


def _shorten(host: Host) -> None:
    """Thousands of runs need not read what was logged of other pods, nor the memory of processes outside of pods."""
    log = host.root / "numaudit/kubelet.log"
    log.write_text("".join(line for line in log.read_text().splitlines(keepends=True) if POD in line))
    for cgroup in (host.root / "proc").glob("[0-9]*/cgroup"):
        if "/kubepods" not in cgroup.read_text():
            cgroup.with_name("numa_maps").write_text("")


@pytest.fixture(params=DAMAGES)
def damage(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=KINDS)
def damaged(request: pytest.FixtureRequest, node: Host, damage: str) -> Iterator[Path]:
    """The one damaged file of the node."""
    path = files_of(node)[request.param]
    before = path.read_bytes()
    path.write_bytes(DAMAGES[damage](before))
    yield path
    path.write_bytes(before)


def test_no_verb_ends_with_an_internal_error(
    node: Host, damage: str, damaged: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(node.root.parent)
    files = files_of(node)
    turn = [*DAMAGES].index(damage) + [*files.values()].index(damaged)
    for number, (verb, lines) in enumerate(LINES.items(), turn):
        if TRIES_FEW and number % len(KINDS):
            continue
        for line in lines(files, damaged)[: 1 if TRIES_FEW else None]:
            code = call([*verb.split(), *line, "--root", str(node.root)])
            error = capsys.readouterr().err
            assert code != EXIT_INTERNAL and "Traceback" not in error, (verb, line, error)
            assert code < 2 or code == 5 or error, (verb, line, code)


def test_explain_says_what_is_wrong_with_the_file_and_who_says_more(node: Host, capsys: Capture) -> None:
    path = files_of(node)[MEMORY]
    before = path.read_bytes()
    path.write_bytes(DAMAGES["cut"](before))
    try:
        assert call(["fit", "-f", str(node.root.parent / "pod.yaml"), "--root", str(node.root)]) == 3
        error = capsys.readouterr().err
        assert "the kubelet does not start with it: could not restore state from checkpoint: unexpected end" in error
        assert "`numaudit state verify` says more" in error
        assert call(["explain", POD, "--root", str(node.root)]) == 0
        assert "unexpected end of JSON input" in capsys.readouterr().out
    finally:
        path.write_bytes(before)


def test_a_damaged_file_of_devices_leaves_devices_out_of_an_explanation(node: Host, capsys: Capture) -> None:
    path = files_of(node)[DEVICES]
    before = path.read_bytes()
    path.write_bytes(DAMAGES["another checksum"](before))
    try:
        assert call(["fit", "-f", str(node.root.parent / "pod.yaml"), "--root", str(node.root)]) == 0
        assert "checkpoint of its devices is damaged, so no device counts" in capsys.readouterr().err
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize("kind", [MEMORY, CPU])
def test_the_files_of_commands_are_read_or_refused(
    node: Host, damage: str, kind: CheckpointKind, tmp_path: Path
) -> None:
    (tmp_path / kind).write_bytes(DAMAGES[damage](files_of(node)[kind].read_bytes()))
    try:
        StateFolder(tmp_path).read()
    except (InputError, Unavailable) as error:
        assert str(tmp_path / kind) in str(error)
