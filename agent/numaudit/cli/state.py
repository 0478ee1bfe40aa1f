"""`numaudit state`: the kubelet's checkpoints decoded, verified and compared."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import click

from numaudit.cli import options
from numaudit.cli.checkpoint_files import Looked, as_configured, is_the_kubelets, look, read_given
from numaudit.cli.exits import EXIT_FINDINGS
from numaudit.errors import InputError, ParseError
from numaudit.kernel.node import read_machine
from numaudit.kubelet import process as kubelet_process
from numaudit.memorymanager.checkpoint import file as checkpoints
from numaudit.memorymanager.checkpoint.file import Checkpoint
from numaudit.memorymanager.checkpoint.memory import WITH_PODS, MemoryCheckpoint
from numaudit.memorymanager.memory.replay import MissingTarget, replay
from numaudit.memorymanager.memory.state import MemoryState
from numaudit.memorymanager.restart.memory_start import default_state
from numaudit.memorymanager.restart.outlook import StartingKubelet
from numaudit.memorymanager.versions import LATEST, POD_LEVEL_GATE, nearest_described, parse_version, read_feature_gates
from numaudit.topology.machine import Machine
from numaudit.views import document, state_document

_FILE = click.Path(exists=True, dir_okay=False, readable=False, allow_dash=True, path_type=Path)


def _kubelet_options(function: options.Function) -> options.Function:
    version = click.option(
        "--kubernetes-version",
        metavar="V",
        help=f"The kubelet that is to start with the file. Default: {LATEST[0]}.{LATEST[1]}, or 1.37 for its formats.",
    )
    gates = click.option(
        "--feature-gates",
        metavar=f"{POD_LEVEL_GATE}=BOOL",
        help="The gate of that kubelet. Without it: as it was when the file was written.",
    )
    return version(gates(function))


@click.group(
    epilog="""\b
Examples:
  numaudit state show
  numaudit state verify /var/lib/kubelet/memory_manager_state
  numaudit state verify -o json --root ./captured
  numaudit state diff before/memory_manager_state after/memory_manager_state
  ssh node cat /var/lib/kubelet/memory_manager_state | numaudit state verify -
Exit codes: 0 fine, 1 not valid or not the same, 2 usage, 3 this host has no checkpoint or may not be read.
"""
)
def command() -> None:
    """The kubelet's checkpoints: what they say, whether they are sound, whether the kubelet will start."""


@command.command(
    epilog="""\b
Examples:
  numaudit state show
  numaudit state show /var/lib/kubelet/cpu_manager_state
  numaudit state show --root ./captured -o json
"""
)
@click.argument("file", required=False, type=_FILE)
@options.output("table", "json")
@_kubelet_options
@options.root
def show(
    file: Path | None, output: str, kubernetes_version: str | None, feature_gates: str | None, root: Path | None
) -> None:
    """Decode FILE, or all checkpoints on this host.

    They are judged as `verify` does, as far as the machine can be read.
    """
    host = kubelet_process.with_its_folder(options.host(root))
    kubelet = _kubelet(kubernetes_version, feature_gates)
    if file is None or is_the_kubelets(file, host, root is not None):
        kubelet = as_configured(kubelet, host)
    looked = look(file, host, is_captured=root is not None, kubelet=kubelet, needs_machine=False)
    if output == "json":
        contents = [None if one.checkpoint is None else state_document.content(one.checkpoint) for one in looked]
        states = tuple(
            state_document.State(one.verification, content) for one, content in zip(looked, contents, strict=True)
        )
        _write_json("State", states[0]) if file else _write_json("StateList", state_document.StateList(states))
    else:
        _print(looked, with_content=True)
    if any(one.checkpoint is None for one in looked):
        click.get_current_context().exit(EXIT_FINDINGS)


@command.command(
    epilog="""\b
Examples:
  numaudit state verify
  numaudit state verify ./memory_manager_state -o json
  numaudit state verify --kubernetes-version 1.31
  numaudit state verify ./memory_manager_state --policy Static
"""
)
@click.argument("file", required=False, type=_FILE)
@options.output("table", "json")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="The configured policy: of FILE's manager, else None or Static for memory and none or static for CPUs. "
    "Without it: as the kubelet's configuration on this host says, if there is one.",
)
@_kubelet_options
@options.root
def verify(
    file: Path | None,
    output: str,
    policies: tuple[str, ...],
    kubernetes_version: str | None,
    feature_gates: str | None,
    root: Path | None,
) -> None:
    """Verify FILE, or all checkpoints on this host.

    Will the kubelet start with them? A file of the kubelet's folder, or any file with --root, is also
    compared with the machine.
    """
    host = kubelet_process.with_its_folder(options.host(root))
    kubelet = _kubelet(kubernetes_version, feature_gates)
    if policies:
        kubelet = _with_policies(kubelet, policies, file)
    elif file is None or is_the_kubelets(file, host, root is not None):
        kubelet = as_configured(kubelet, host)
    looked = look(file, host, is_captured=root is not None, kubelet=kubelet, needs_machine=True)
    found = tuple(one.verification for one in looked)
    is_valid = all(one.valid for one in found)
    if output == "json" and file is not None:
        _write_json("StateVerification", found[0])
    elif output == "json":
        _write_json("StateVerificationList", state_document.StateVerificationList(is_valid, found))
    else:
        _print(looked, with_content=False)
    if not is_valid:
        click.get_current_context().exit(EXIT_FINDINGS)


@command.command(
    epilog="""\b
Examples:
  numaudit state diff before/memory_manager_state after/memory_manager_state
  numaudit state diff /var/lib/kubelet/memory_manager_state
"""
)
@click.argument("a", type=_FILE)
@click.argument("b", required=False, type=_FILE)
@options.output("table", "json")
@options.root
def diff(a: Path, b: Path | None, output: str, root: Path | None) -> None:
    """Show what differs between checkpoints A and B.

    Without B, A is a memory_manager_state and is compared with what this machine would hold after a
    replay of A's assignments.
    """
    left = _parse(a)
    right = _replayed(left, read_machine(options.host(root))) if b is None else _parse(b)
    if checkpoints.kind(left) != checkpoints.kind(right):
        raise InputError(f"{a} is a {checkpoints.kind(left)}, {b} a {checkpoints.kind(right)}: give two of a kind")
    found = state_document.StateDifference(
        str(a),
        "this machine" if b is None else str(b),
        state_document.compare(state_document.content(left), state_document.content(right)),
    )
    if output == "json":
        _write_json("StateDifference", found)
    else:
        from numaudit.views import state_tables, terminal  # noqa: PLC0415 (rich is needed for tables only)

        state_tables.print_difference(found, terminal.console())
    if found.differences:
        click.get_current_context().exit(EXIT_FINDINGS)


def _kubelet(version: str | None, gates: str | None) -> StartingKubelet:
    asked = LATEST if version is None else parse_version(version)
    _, notice = nearest_described(asked)
    if notice is not None:
        click.echo(f"numaudit: {notice}", err=True)
    kubelet = StartingKubelet(asked, version_is_known=version is not None)
    return kubelet.with_gates(read_feature_gates(gates) if gates else {})


def _with_policies(kubelet: StartingKubelet, names: tuple[str, ...], file: Path | None) -> StartingKubelet:
    """The names tell by themselves which manager they are for: its policies begin with a capital or not."""
    if file is not None:
        return replace(kubelet, memory_policy=names[-1], cpu_policy=names[-1])
    for name in names:
        if name in ("None", "Static"):
            kubelet = replace(kubelet, memory_policy=name)
        elif name in ("none", "static"):
            kubelet = replace(kubelet, cpu_policy=name)
        else:
            raise InputError(
                f"--policy {name!r}: the Memory Manager has None and Static, the CPU Manager none and static"
            )
    return kubelet


def _parse(path: Path) -> Checkpoint:
    data = read_given(path)
    try:
        checkpoint = checkpoints.parse(checkpoints.kind_of(path.name, data), data)
    except ParseError as error:
        _refuse(path, str(error))
    if not checkpoints.verify(checkpoint).is_valid:
        print(f"numaudit: {path}: the checksum is wrong; compared all the same", file=sys.stderr)
    return checkpoint


def _refuse(path: Path, message: str) -> NoReturn:
    print(f"numaudit: {path}: {message}", file=sys.stderr)
    click.get_current_context().exit(EXIT_FINDINGS)


def _replayed(left: Checkpoint, machine: Machine) -> MemoryCheckpoint:
    """What the Memory Manager expects on this machine with the file's assignments."""
    if not isinstance(left, MemoryCheckpoint):
        raise InputError(f"a {checkpoints.kind(left)} can only be compared with a second file")
    pod_level = checkpoints.verify(left).form in WITH_PODS
    state = left.state
    try:
        expected = replay(default_state(state, machine), state, pod_level=pod_level)
    except MissingTarget as missing:
        raise InputError(f"the assignments do not fit this machine: {missing}") from None
    return MemoryCheckpoint.of(
        left.policy_name, MemoryState(expected, state.entries, state.pod_entries), pod_level=pod_level
    )


def _write_json(kind: str, value: object) -> None:
    sys.stdout.buffer.write(document.encode(kind, value))


def _print(looked: list[Looked], *, with_content: bool) -> None:
    from numaudit.views import state_tables, terminal  # noqa: PLC0415 (rich is needed for tables only)

    out = terminal.console()
    for number, one in enumerate(looked):
        if number:
            out.print()
        state_tables.print_verification(one.verification, out)
        if with_content and one.checkpoint is not None:
            state_tables.print_content(one.checkpoint, out)
