"""The verbs of `kubectl numaudit`: those of `numaudit`, for a pod, a node or the whole cluster."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from numaudit.cli import main
from numaudit.cli.cluster.options import OPTIONS, CommandLine, PodName
from numaudit.cli.options import FilePath, Given

Words = tuple[str, ...]
_EXITS = (
    "Exit codes: those of `numaudit {verb}` there; 2 usage, no such pod or node, 3 no agent, no kubectl, or it is not "
    "allowed, 130 interrupted."
)
EXAMPLES: dict[Words, tuple[str, ...]] = {
    ("report",): (
        "report -A",
        "report mysql-0 -n prod",
        "report --node worker-7 -o wide",
        "report -A --fail-on drifted",
    ),
    ("explain",): ("explain mysql-0/db -n prod", "explain mysql-0 -A --duration 10s"),
    ("top",): ("top mysql-0 -n prod", "top --node worker-7"),
    ("fit",): ("fit -f deployment.yaml", "fit -f pod.yaml --count 5", "fit -f pod.yaml --node worker-7 --make-room"),
    ("headroom",): ("headroom", "headroom --node worker-7"),
    ("doctor",): ("doctor", "doctor --node worker-7 --debug --image registry.example/numaudit:0.1.0"),
    ("state", "show"): ("state show --node worker-7",),
    ("state", "verify"): ("state verify", "state verify mysql-0 -n prod"),
}
"""Verb -> its examples, after `kubectl numaudit`."""
_HELP: dict[Words, str] = {
    ("report",): "Show where memory of containers is, and whether it was promised there. Without NAME or --node all "
    "agents are asked at once, and their answers are one table.",
    ("explain",): "Explain what a pod was promised, why, and what it got.",
    ("top",): "Show the report of a pod or of a node live; it needs a terminal.",
    ("fit",): "Show on which nodes kubelets would admit a pod or a workload's replicas, and why not on the others.",
    ("headroom",): "Show how much memory the kubelets can still promise.",
    ("doctor",): "Check what each node can measure, and why not the rest.",
    ("state", "show"): "Decode the checkpoints of a node's kubelet.",
    ("state", "verify"): "Verify the checkpoints of all kubelets, or of one.",
}
_LEFT_OUT = {"root", "namespace", "which", "calibrate"}
"""Those that the plugin has itself, and those of a captured host."""
_MANIFEST = "pod"


class _Typed(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """A value that is checked here and goes on as it was typed."""

    def __init__(self, kind: click.ParamType) -> None:  # type: ignore[type-arg]
        self.kind = kind
        self.name = kind.name

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        self.kind.convert(value, param, ctx)
        return str(value)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self.kind.get_metavar(param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return self.kind.shell_complete(ctx, param, incomplete)


def command_of(verb: Words) -> click.Command:
    """The plugin's command for a verb."""
    original = _original(verb)
    params: list[click.Parameter] = []
    if any(one.name == "which" for one in original.params) or verb != ("fit",):
        required = verb == ("explain",)
        params.append(click.Argument(["target"], required=required, type=PodName(), metavar=_metavar(verb)))
    own = [one for one in map(_adapted, original.params) if one is not None]
    params += [*own, *copy.deepcopy(OPTIONS)]
    own_values = [one for one in own if one.expose_value]
    taken = {flag for one in own for flag in one.opts}
    assert not taken & {flag for one in OPTIONS for flag in one.opts}, taken
    name = " ".join(("kubectl numaudit", *verb))
    shown = "\n".join(f"  kubectl numaudit {one}" for one in EXAMPLES[verb])
    return click.Command(
        verb[-1],
        params=params,
        help=_HELP[verb],
        short_help=_HELP[verb].partition(". ")[0].rstrip(".") + ".",
        epilog=f"\b\nExamples:\n{shown}\n\n{_EXITS.format(verb=' '.join(verb))}\n",
        callback=_callback(verb, own_values, any(one.name == "which" for one in original.params)),
        context_settings={"obj": name},
    )


def _metavar(verb: Words) -> str:
    return "POD[/CONTAINER]" if verb == ("explain",) else "[POD[/CONTAINER]|node/NODE]"


def _original(verb: Words) -> click.Command:
    found = importlib.import_module(main.module_of(verb[0])).command
    for word in verb[1:]:
        found = found.commands[word]
    assert isinstance(found, click.Command)
    return found


def _adapted(param: click.Parameter) -> click.Option | None:
    """None = it is about files of this machine, or the plugin has its own."""
    if not isinstance(param, click.Option) or param.name in _LEFT_OUT:
        return None
    if not param.expose_value:
        return param
    if isinstance(param.type, FilePath):
        return param if param.name == _MANIFEST else None
    found = copy.copy(param)
    if not param.is_flag:
        found.type = _Typed(param.type)
    return found


def _callback(verb: Words, own: list[click.Option], takes_name: bool) -> Callable[..., int]:
    def run(**values: Given) -> int:
        from numaudit.cli.cluster import work
        from numaudit.config.yaml_document import read_body

        ctx = click.get_current_context()
        options = {one.name: one for one in own if one.name is not None}
        typed = [name for name in options if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        arguments = [word for name in typed if name != _MANIFEST for word in _typed(options[name], values[name])]
        manifest = read_body(values[_MANIFEST], "the pod") if _MANIFEST in options else None
        mine = {name: value for name, value in values.items() if name not in options and name != "target"}
        asked = CommandLine(
            verb,
            tuple(arguments),
            frozenset(typed),
            {name: values[name] for name in options},
            values.get("target"),
            manifest,
            takes_name,
            **mine,
        )
        return work.run(asked)

    return run


def _typed(option: click.Option, value: Given) -> list[str]:
    flag = max(option.opts, key=len)
    if option.is_flag:
        return [flag]
    return [f"{flag}={one}" for one in (value if option.multiple else [value])]
