"""`kubectl numaudit`: numaudit's verbs from a workstation. kubectl finds it by its name on PATH, `kubectl-numaudit`."""

from __future__ import annotations

import re
import sys
from typing import NoReturn

import click
from click.shell_completion import ShellComplete

from numaudit import __version__
from numaudit.cli import main
from numaudit.cli.cluster.verbs import EXAMPLES, OPTIONS, Words, command_of

_EXITS = "Exit codes: 0 fine, 1 findings, 2 usage, 3 the cluster cannot answer, 130 interrupted."
_NO_FILES, _FILES = ":4", ":0"
"""Last line of a completion: cobra's ShellCompDirective. Source: kubectl, pkg/cmd/plugin/plugin_completion.go."""


class _Verbs(click.Group):
    """Makes a verb's command only when it is used."""

    def __init__(self, name: str, path: Words, help: str) -> None:
        super().__init__(
            name,
            help=help,
            subcommand_metavar="VERB [ARGS]...",
            context_settings={"help_option_names": ["-h", "--help"]},
            epilog="" if path else _EXITS,
        )
        self._path = path

    def list_commands(self, ctx: click.Context) -> list[str]:
        depth = len(self._path)
        return list(dict.fromkeys(verb[depth] for verb in EXAMPLES if verb[:depth] == self._path))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        main.refuse_unknown(args, self.list_commands(ctx), f"; `{ctx.command_path} --help` lists the verbs", ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        path = (*self._path, cmd_name)
        if path in EXAMPLES:
            return command_of(path)
        if any(verb[: len(path)] == path for verb in EXAMPLES):
            return _Verbs(cmd_name, path, "Decode or verify the kubelet's checkpoints.")
        return None


plugin = _Verbs(
    "kubectl-numaudit",
    (),
    "Ask numaudit's agents from anywhere: of a pod, of a node, or of the whole cluster. kubectl logs in and reaches "
    "the API server.",
)
click.version_option(__version__, prog_name="kubectl-numaudit")(plugin)


def run() -> NoReturn:
    """The console script `kubectl-numaudit`."""
    main.open_outputs()
    sys.exit(call(sys.argv[1:]))


def call(arguments: list[str]) -> int:
    """Run one command line; the exit code."""
    return main.call(verb_first(as_kubectl_takes_them(arguments)), plugin, "kubectl numaudit")


def as_kubectl_takes_them(arguments: list[str]) -> list[str]:
    """kubectl also knows short flags with an equals sign: `-n=prod`."""
    return [word for one in arguments for word in ((one[:2], one[3:]) if re.match(r"-[a-zA-Z]=", one) else (one,))]


def verb_first(arguments: list[str]) -> list[str]:
    """Flags may stand before the verb, too, as with kubectl's own: `kubectl numaudit -n prod report`."""
    valued = {flag for one in OPTIONS if not one.is_flag for flag in one.opts}
    known = {flag for one in OPTIONS for flag in (*one.opts, *one.secondary_opts)}
    index = 0
    while index < len(arguments) and arguments[index].partition("=")[0] in known:
        index += 2 if arguments[index] in valued else 1
    if index < len(arguments) and not arguments[index].startswith("-"):
        return [arguments[index], *arguments[:index], *arguments[index + 1 :]] if arguments[index] != "state" else [
            *arguments[index : index + 2], *arguments[:index], *arguments[index + 2 :]
        ]  # fmt: skip
    return arguments


def complete() -> NoReturn:
    """The console script `kubectl_complete-numaudit`: candidates for the last word, a line each, and a directive."""
    main.open_outputs()
    *words, begun = sys.argv[1:] or [""]
    found = ShellComplete(plugin, {}, "kubectl-numaudit", "_").get_completions(words, begun)
    names_files = any(one.type in ("file", "dir") for one in found)
    for one in found:
        if one.type == "plain":
            print(f"{one.value}\t{one.help}" if one.help else one.value)
    print(_FILES if names_files else _NO_FILES)
    sys.exit(0)
