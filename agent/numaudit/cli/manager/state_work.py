"""The verbs of `numaudit state`. A finding ends the command with its exit code."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import click
from msgspec.structs import replace

from numaudit.api import state_document
from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.file import Checkpoint
from numaudit.cli import EXIT_FINDINGS, EXIT_INCONCLUSIVE, options, printing
from numaudit.containermanager.memory.headroom import HugePagesAtStart
from numaudit.containermanager.versions import nearest_described, parse_version, read_feature_gates
from numaudit.errors import InputError
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.kubelet.host_files import belongs_to, decode_given, examine_files, forecast_on, poll_once
from numaudit.kubelet.questions.examination import ExaminedFile, expected_on
from numaudit.kubelet.questions.node_here import pod_names
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.kubelet.sources.poller import KubeletPoller
from numaudit.kubelet.sources.readings import KubeletReadings


def show(
    file: Path | None, output: str, kubernetes_version: str | None, feature_gates: str | None, root: Path | None
) -> None:
    """Print what the files have in them; `file`: None = all of the host."""
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


def verify(
    file: Path | None,
    output: str,
    policies: tuple[str, ...],
    kubernetes_version: str | None,
    feature_gates: str | None,
    root: Path | None,
) -> None:
    """Print whether a kubelet starts with them."""
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


def diff(a: Path, b: Path | None, output: str, root: Path | None) -> None:
    """Print how two differ; `b`: None = the second is what this machine would have."""
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
        from numaudit.views.terminal import state_tables, terminal

        state_tables.print_difference(found, terminal.console())
    if found.differences:
        click.get_current_context().exit(EXIT_FINDINGS)


def forecast(
    *,
    reboot: bool,
    kernel_huge_pages: bool,
    kubernetes_version: str | None,
    feature_gates: str | None,
    output: str,
    root: Path | None,
) -> None:
    """Print what a restart does to the pods."""
    host = options.host(root)
    pages = _huge_pages(host, reboot=reboot) if kernel_huge_pages else None
    found = forecast_on(host, _asked(kubernetes_version, feature_gates), reboot=reboot, huge_pages=pages)
    if output == "json":
        _write_json("RestartForecast", found, host)
    else:
        from numaudit.views.terminal import simulation_tables

        with printing.table_of_host(host) as out:
            simulation_tables.print_forecast(found, out, wide=output == "wide")
    if not found.is_safe:
        click.get_current_context().exit(EXIT_INCONCLUSIVE if found.is_open else EXIT_FINDINGS)


def _huge_pages(host: Host, *, reboot: bool) -> HugePagesAtStart:
    from numaudit.engine.engine import Engine
    from numaudit.engine.observer import Observer
    from numaudit.evaluation.huge_pages import huge_pages_at_start

    return huge_pages_at_start(Engine(Observer.of(host)).tick().snapshot, reboot=reboot)


def _asked(version: str | None, gates: str | None) -> AskedKubelet:
    asked = None if version is None else parse_version(version)
    notice = None if asked is None else nearest_described(asked)[1]
    if notice is not None:
        click.echo(f"numaudit: {notice}", err=True)
    return AskedKubelet(asked, read_feature_gates(gates) if gates else {})


def _with_policies(asked: AskedKubelet, names: tuple[str, ...], file: Path | None) -> AskedKubelet:
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


def _parse(path: Path, host: Host, readings: KubeletReadings | None) -> Checkpoint:
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
        printing.json_of_host(kind, value, host)
    else:
        printing.json_of_no_host(kind, value)


def _print(found: tuple[ExaminedFile, ...], *, with_content: bool) -> None:
    from numaudit.views.terminal import report_tables, state_tables, terminal

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
                report_tables.print_headroom(left, out)
