"""The `numaudit` command: finds the verb, and turns errors into messages and exit codes."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import resource
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, NoReturn, TextIO, cast

import click

from numaudit import __version__
from numaudit.cli import EXIT_CANNOT_ANSWER, EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE
from numaudit.cli.messages import Messages, Output, drop_the_rest
from numaudit.daemon import signals
from numaudit.errors import InputError, NumauditError, nearest, printable

_FILES = "raise the limit (ulimit -n)"
_PROCESSES = "raise the limit (ulimit -u, or pids.max)"


def limit_reached(error: BaseException) -> str | None:
    """Message for an error that such a limit caused; None = none did.

    A verb may have made its own error of the one that the limit caused.
    """
    for cause in _chain(error):
        found = _limit(cause)
        if found is not None:
            words, what_to_do = found
            said = words if cause is error else str(error)
            return said if what_to_do in said else f"{said}; {what_to_do}"
    return None


def host_is_full(error: BaseException) -> str | None:
    """Message where the host itself has no more; None = it is something else."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return "not enough memory; give the container, or the host, more"
    if isinstance(error, OSError) and error.errno == errno.ENFILE:
        return f"{os.strerror(errno.ENFILE)}; raise fs.file-max"
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and those that led to it."""
    seen = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def _limit(error: BaseException) -> tuple[str, str] | None:
    """Words and what to do. A module that cannot be opened is an ImportError, and Python names a thread that does not
    start in words only."""
    text = str(error)
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        is_set = _is_set(resource.RLIMIT_AS) or _is_set(resource.RLIMIT_DATA)
        return ("not enough memory", "raise the limit (ulimit -v or -d)") if is_set else None
    if isinstance(error, OSError):
        match error.errno:
            case errno.EMFILE:
                return os.strerror(errno.EMFILE), _FILES
            case errno.EAGAIN:
                return f"no process or thread can be started: {os.strerror(errno.EAGAIN)}", _PROCESSES
            case errno.EFBIG if _is_set(resource.RLIMIT_FSIZE):
                return f"cannot write the result: {os.strerror(errno.EFBIG)}", "raise the limit (ulimit -f)"
    if isinstance(error, ImportError | RuntimeError):
        if os.strerror(errno.EMFILE) in text:
            return os.strerror(errno.EMFILE), _FILES
        if "can't start new thread" in text:
            return f"no process or thread can be started: {text}", _PROCESSES
    return None


def _is_set(limit: int) -> bool:
    return resource.getrlimit(limit)[0] != resource.RLIM_INFINITY


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Verb(NamedTuple):
    """A verb is a module of its name, whose `command` click runs."""

    package: str
    """Where the module is."""
    help: str
    """One line, for the list of verbs."""


VERBS = {
    "report": Verb("cli.observe", "Show where each container's memory is, and whether it was promised there."),
    "ranks": Verb("cli.observe", "Show the processes that a launcher binds to nodes, and whether they are there."),
    "top": Verb("cli.observe", "Show the report live: sort, filter, or open one container."),
    "topology": Verb("cli.observe", "Show NUMA nodes, CPUs, distances, memory, huge pages and memory tiers."),
    "explain": Verb("cli.manager", "Explain what a pod was promised, why, and what it got."),
    "fit": Verb("cli.manager", "Show whether a pod would be admitted here, why not, and what would let it in."),
    "headroom": Verb("cli.observe", "Show how much memory the kubelet can still promise."),
    "nrt": Verb("cli.observe", "Print what a scheduler should know of this node (NodeResourceTopology)."),
    "forecast": Verb("cli.manager", "Show which pods a restart of the kubelet would refuse or move."),
    "state": Verb("cli.manager", "Decode, verify or compare the kubelet's checkpoints."),
    "simulate": Verb("cli.manager", "Simulate which pods a kubelet admits on a described machine."),
    "setup": Verb("cli.observe", "Check whether this node is set up to keep promises of memory."),
    "doctor": Verb("cli.observe", "Check what this host can measure, and why it cannot measure the rest."),
    "run": Verb("cli.manager", "Run a command with memory reserved on NUMA nodes, without Kubernetes."),
    "assert": Verb("cli.manager", "Fail in CI when a command or a container uses too much remote memory."),
    "capture": Verb("cli.observe", "Save /proc, /sys, cgroup and kubelet state of this host for offline analysis."),
    "agent": Verb("cli", "Observe this host all the time, for Prometheus and OpenTelemetry."),
    "config": Verb("cli", "Show and check the agent's settings."),
    "help": Verb("cli", "Print the help of a verb, or the glossary."),
}


def module_of(verb: str) -> str:
    """Return the name of the module that implements a verb of VERBS."""
    return f"numaudit.{VERBS[verb].package}.{verb}"


def refuse_unknown(args: Sequence[str], verbs: Iterable[str], but: str, ctx: click.Context) -> None:
    """Raises UsageError for a verb that is none of these, with the nearest one, or `but` where none is near."""
    if args and not args[0].startswith("-") and args[0] not in verbs:
        raise click.UsageError(f"there is no verb {args[0]!r}{nearest(args[0], verbs, but)}", ctx)


class _Verbs(click.Group):
    """Imports a verb's module only when that verb is used, so that --help stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(module_of(cmd_name)).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        refuse_unknown(args, VERBS, "; `numaudit --help` lists the verbs", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.help) for name, verb in VERBS.items()])


@click.group(
    cls=_Verbs,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 fine, 1 findings, 2 usage or one of your limits (ulimit), 3 this host cannot answer, "
    "4 internal error, 5 inconclusive, 130 interrupted.",
)
@click.version_option(__version__, prog_name="numaudit")
def main() -> None:
    """Prove NUMA memory alignment: compare where memory was promised with where it is."""


def run() -> NoReturn:
    """The console script."""
    open_outputs()
    code = call(sys.argv[1:])
    if sys.argv[1:2] == ["agent"]:
        signals.while_the_agent_ends()
    sys.exit(code)


def open_outputs() -> None:
    """Open closed outputs (`>&-`), whose text is dropped; a letter that an output cannot show becomes an escape."""
    for name in ("stdout", "stderr"):
        before: TextIO | None = getattr(sys, name)
        descriptor = os.open(os.devnull, os.O_WRONLY) if before is None else before.fileno()
        # Also with PYTHONUNBUFFERED: a disk that fills up while a document is written would cut it short without error.
        buffer = io.BufferedWriter(Output(descriptor, is_vital=name == "stdout"))
        encoding = "utf-8" if before is None else before.encoding
        by_line = name == "stderr" or buffer.isatty()
        setattr(sys, name, io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=by_line))


def call(arguments: list[str], command: click.Command = main, name: str = "numaudit") -> int:
    """Run one command line; the exit code. Only messages for people go to stderr, never a traceback."""
    with contextlib.redirect_stderr(cast("TextIO", Messages(sys.stderr, arguments))):
        return _call(arguments, command, name)


def _call(arguments: list[str], command: click.Command, name: str) -> int:
    try:
        result = command.main(args=arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get("NUMAUDIT_DEBUG"):
            raise
        return _failed(error)
    return result if isinstance(result, int) else 0


def _failed(error: BaseException) -> int:
    """Say what went wrong on stderr; the exit code for it. What was printed before is still a result."""
    try:
        sys.stdout.flush()
    except OSError as unwritten:
        drop_the_rest(sys.stdout)
        error = unwritten
    code, message = _code_and_message(error)
    if isinstance(error, click.ClickException):
        error.show()
    elif message is not None:
        print(f"numaudit: {printable(message)}", file=sys.stderr)
    return code


def _code_and_message(error: BaseException) -> tuple[int, str | None]:
    """Exit code and message; None = there is none, or click has its own."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code, None
        case click.ClickException():
            return EXIT_USAGE, None
        case KeyboardInterrupt() | click.Abort():
            return EXIT_INTERRUPTED, None
    if (limit := limit_reached(error)) is not None:
        return EXIT_USAGE, limit
    if (full := host_is_full(error)) is not None:
        return EXIT_CANNOT_ANSWER, full
    match error:
        case InputError():
            return EXIT_USAGE, str(error)
        case NumauditError():
            return EXIT_CANNOT_ANSWER, str(error)
        case OSError() if error.errno in _NO_ROOM:
            return EXIT_CANNOT_ANSWER, f"cannot write the result: {error.strerror}"
    kind = type(error).__name__
    return EXIT_INTERNAL, f"internal error: {kind}: {error}; NUMAUDIT_DEBUG=1 shows where"
