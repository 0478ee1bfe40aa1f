"""`numaudit state`: decodes, verifies and compares the kubelet's checkpoints."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import click

from numaudit.api import state_document
from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.file import Checkpoint
from numaudit.cli import json_output, options
from numaudit.cli.exits import EXIT_FINDINGS, EXIT_INCONCLUSIVE
from numaudit.cli.manager import headroom
from numaudit.containermanager.versions import (
    DRIFT_GATE,
    LATEST,
    POD_LEVEL_GATE,
    nearest_described,
    parse_version,
    read_feature_gates,
)
from numaudit.errors import InputError
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.kubelet.host_files import belongs_to, decode_given, examine_files, forecast_on, poll_once
from numaudit.kubelet.questions.examination import ExaminedFile, expected_on
from numaudit.kubelet.questions.pod_names import pod_names
from numaudit.kubelet.questions.starting import Asked
from numaudit.kubelet.sources.poller import KubeletPoller
from numaudit.kubelet.sources.readings import Readings

_FILE = options.FilePath(exists=True, dir_okay=False, readable=False, allow_dash=True)


def _kubelet_options(function: options.Function) -> options.Function:
    version = click.option(
        "--kubernetes-version",
        metavar="V",
        help="Version of the kubelet that starts with the file. By default it is the host's, by its log or metrics, "
        f"else {LATEST[0]}.{LATEST[1]}, or 1.37 for the formats of 1.37.",
    )
    gates = click.option(
        "--feature-gates",
        metavar=f"{POD_LEVEL_GATE}=BOOL",
        help="Feature gate of that kubelet. By default it is as in the kubelet's configuration on this host, else as "
        "when the file was written.",
    )
    return version(gates(function))


@click.group(
    epilog="""\b
Examples:
  numaudit state show
  numaudit state verify /var/lib/kubelet/memory_manager_state
  numaudit state verify -o json --root ./captured
  numaudit state diff before/memory_manager_state after/memory_manager_state
  numaudit state forecast --reboot
  numaudit state headroom
  ssh node cat /var/lib/kubelet/memory_manager_state | numaudit state verify -
Exit codes: 0 fine, 1 not valid or not the same, 2 usage, 3 this host has no checkpoint or may not be read.
"""
)
def command() -> None:
    """Decode, verify or compare the kubelet's checkpoints, and foresee what a restart does with them."""


@command.command(
    epilog="""\b
Examples:
  numaudit state show
  numaudit state show /var/lib/kubelet/cpu_manager_state
  numaudit state show --root ./captured -o json
Exit codes: 0 fine, 1 a file is damaged, 2 no such file or no checkpoint, 3 this host has none or may not be read.
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

    It also verifies them like `numaudit state verify`, as far as the machine can be read.
    """
    host = options.host(root)
    found = examine_files(file, host, _asked(kubernetes_version, feature_gates), needs_machine=False)
    if output == "json" and file is not None:
        _write_json("State", state_document.decoded(found[0]), host, file)
    elif output == "json":
        states = tuple([state_document.decoded(one) for one in found])
        _write_json("StateList", state_document.DecodedStateList(states), host)
    else:
        _print(found, with_content=True)
    if any(one.is_damaged for one in found):
        click.get_current_context().exit(EXIT_FINDINGS)


@command.command(
    epilog="""\b
Examples:
  numaudit state verify
  numaudit state verify ./memory_manager_state -o json
  numaudit state verify --kubernetes-version 1.31
  numaudit state verify ./memory_manager_state --policy Static
Exit codes: 0 valid, 1 not valid or the kubelet does not start with it, 2 no checkpoint, 3 too little can be read here.
"""
)
@click.argument("file", required=False, type=_FILE)
@options.output("table", "json")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="Configured policy of FILE's manager; without FILE, None or Static for memory and none or static for CPUs. By "
    "default it is as in the kubelet's configuration on this host.",
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

    It says whether the kubelet will start with them. A file in the kubelet's folder, or any file with --root, is also
    compared with the machine.
    """
    host = options.host(root)
    asked = _with_policies(_asked(kubernetes_version, feature_gates), policies, file)
    found = examine_files(file, host, asked, needs_machine=True)
    verified = state_document.verifications(found)
    if output == "json" and file is not None:
        _write_json("StateVerification", verified.items[0], host, file)
    elif output == "json":
        _write_json("StateVerificationList", verified, host)
    else:
        _print(found, with_content=False)
    if any(not one.valid or one.starts_now == "no" for one in verified.items):
        click.get_current_context().exit(EXIT_FINDINGS)


@command.command(
    epilog="""\b
Examples:
  numaudit state diff before/memory_manager_state after/memory_manager_state
  numaudit state diff /var/lib/kubelet/memory_manager_state
Exit codes: 0 the same, 1 they differ, 2 two kinds of files or no checkpoint, 3 the machine cannot be read.
"""
)
@click.argument("a", type=_FILE)
@click.argument("b", required=False, type=_FILE)
@options.output("table", "json")
@options.root
def diff(a: Path, b: Path | None, output: str, root: Path | None) -> None:
    """Show the differences between checkpoints A and B.

    Without B, A must be a memory_manager_state. It is compared with the memory map that this machine would have after a
    replay of A's promises.
    """
    with closing(KubeletPoller.of(options.host(root))) as kubelet:
        host = kubelet.locate()
        is_of_host = b is None or belongs_to(host, a) or belongs_to(host, b)
        readings = poll_once(kubelet) if is_of_host else None
    left = _parse(a, host, readings)
    right = expected_on(left, read_machine(host)) if b is None else _parse(b, host, readings)
    if checkpoints.kind(left) != checkpoints.kind(right):
        raise InputError(f"{a} is a {checkpoints.kind(left)}, {b} a {checkpoints.kind(right)}: give two of a kind")
    pods = {} if readings is None else pod_names((left, right), readings)
    found = state_document.difference(str(a), "this machine" if b is None else str(b), left, right, pods)
    if output == "json":
        _write_json("StateDifference", found, host, *((a,) if b is None else (a, b)))
    else:
        from numaudit.views.terminal import state_tables, terminal  # noqa: PLC0415 (rich is needed for tables only)

        state_tables.print_difference(found, terminal.console())
    if found.differences:
        click.get_current_context().exit(EXIT_FINDINGS)


@command.command(
    epilog="""\b
Examples:
  numaudit state forecast
  numaudit state forecast --reboot
  numaudit state forecast --kubernetes-version 1.37 -o json
Exit codes: 0 every pod keeps its promise, 1 some do not, or the kubelet does not start, 3 unknown, 5 the kubelet may or
may not start.
"""
)
@click.option("--reboot", is_flag=True, help="Assume a reboot of the node: no container runs when the kubelet starts.")
@_kubelet_options
@options.output("table", "json")
@options.root
def forecast(
    *, reboot: bool, kubernetes_version: str | None, feature_gates: str | None, output: str, root: Path | None
) -> None:
    """Show which pods a restart of the kubelet would refuse or move.

    The kubelet restarts with its present settings and files, or is upgraded to another version. `numaudit state verify`
    says whether it starts with these files.
    """
    host = options.host(root)
    found = forecast_on(host, _asked(kubernetes_version, feature_gates), reboot=reboot)
    if output == "json":
        _write_json("RestartForecast", found, host)
    else:
        from numaudit.views.terminal import forecast_tables, terminal  # noqa: PLC0415 (rich is needed for tables only)

        forecast_tables.print_forecast(found, terminal.console())
    if not found.is_safe:
        click.get_current_context().exit(EXIT_INCONCLUSIVE if found.is_open else EXIT_FINDINGS)


command.add_command(headroom.command, "headroom")


def _asked(version: str | None, gates: str | None) -> Asked:
    asked = None if version is None else parse_version(version)
    notice = None if asked is None else nearest_described(asked)[1]
    if notice is not None:
        click.echo(f"numaudit: {notice}", err=True)
    named = read_feature_gates(gates) if gates else {}
    return Asked(asked, named.get(POD_LEVEL_GATE, named.get("AllAlpha")), named.get(DRIFT_GATE))


def _with_policies(asked: Asked, names: tuple[str, ...], file: Path | None) -> Asked:
    """A policy's name alone says which manager it is for: the Memory Manager's begin with a capital."""
    for name in names:
        if file is not None:
            asked = replace(asked, memory_policy=name, cpu_policy=name)
        elif name in ("None", "Static"):
            asked = replace(asked, memory_policy=name)
        elif name in ("none", "static"):
            asked = replace(asked, cpu_policy=name)
        else:
            raise InputError(
                f"--policy {name!r}: the Memory Manager has None and Static, the CPU Manager none and static"
            )
    return asked


def _parse(path: Path, host: Host, readings: Readings | None) -> Checkpoint:
    file = decode_given(path, host, readings)
    if file.content is None:
        _refuse(path, "not a checkpoint" if file.finding is None else file.finding.message)
    checkpoint, verification = file.content
    if not verification.is_valid:
        print(f"numaudit: {path}: the checksum is wrong; the comparison ignores that", file=sys.stderr)
    return checkpoint


def _refuse(path: Path, message: str) -> NoReturn:
    print(f"numaudit: {path}: {message}", file=sys.stderr)
    click.get_current_context().exit(EXIT_FINDINGS)


def _write_json(kind: str, value: object, host: Host, *files: Path) -> None:
    """A document about the host; about none, if no file is of its kubelet."""
    if not files or any(belongs_to(host, one) for one in files):
        json_output.of_host(kind, value, host)
    else:
        json_output.of_no_host(kind, value)


def _print(found: tuple[ExaminedFile, ...], *, with_content: bool) -> None:
    from numaudit.views.terminal import headroom_tables, state_tables, terminal  # noqa: PLC0415 (rich is needed for tables only)

    out = terminal.console()
    for number, one in enumerate(found):
        if number:
            out.print()
        state_tables.print_verification(state_document.verification(one), out)
        if with_content and one.checkpoint is not None:
            state_tables.print_content(one.checkpoint, out, one.pods)
            left = state_document.headroom(one)
            if left is not None:
                out.print()
                headroom_tables.print_headroom(left, out)
