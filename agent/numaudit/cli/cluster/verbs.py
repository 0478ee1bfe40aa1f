"""The verbs of `kubectl numaudit`: those of `numaudit`, for a pod, a node or the whole cluster."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from numaudit.cli import main
from numaudit.cli.options import FilePath, Given
from numaudit.cli.parameters import Duration
from numaudit.errors import NumauditError

AGENT_NAMESPACE = "numaudit"


class PodName(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """A pod, namespace/pod, pod/container, or node/NAME. The API server finds it, or says that it is not there."""

    name = "pod"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _listed(ctx, "pods", incomplete, _of_namespace(ctx))


class NamespaceName(click.ParamType):  # type: ignore[type-arg]
    name = "namespace"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _listed(ctx, "namespaces", incomplete)


class NodeName(click.ParamType):  # type: ignore[type-arg]
    name = "node"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _listed(ctx, "nodes", incomplete)


def _of_namespace(ctx: click.Context) -> tuple[str, ...]:
    if ctx.params.get("everywhere"):
        return ("-A",)
    namespace = ctx.params.get("namespace")
    return () if namespace is None else (f"--namespace={namespace}",)


def _listed(ctx: click.Context, kind: str, incomplete: str, flags: tuple[str, ...] = ()) -> list[CompletionItem]:
    """Names by `kubectl get`; none where it fails, for a key press has no room for an error."""
    from numaudit.kubectl.api import Kubectl

    try:
        kubectl = Kubectl.find(ctx.params.get("context"), ctx.params.get("kubeconfig"))
        found = kubectl.output("get", kind, "-o", "name", "--request-timeout=5s", *flags)
    except NumauditError:
        return []
    names = [line.rpartition("/")[2] for line in found.decode("utf-8", "replace").split()]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


OPTIONS: tuple[click.Option, ...] = (
    click.Option(
        ["-n", "--namespace"], type=NamespaceName(), metavar="NAME",
        help="Namespace of the pod, or of the containers to show; by default the context's.",
    ),
    click.Option(["-A", "--all-namespaces", "everywhere"], is_flag=True, help="Show or search all namespaces."),
    click.Option(["--node"], type=NodeName(), metavar="NODE", help="Node whose agent answers, for all its pods."),
    click.Option(["--context"], metavar="NAME", help="Context of the kubeconfig, as for kubectl."),
    click.Option(["--kubeconfig"], metavar="FILE", help="File with the cluster and the credentials, as for kubectl."),
    click.Option(
        ["--agent-namespace"], default=AGENT_NAMESPACE, show_default=True, metavar="NAME",
        help="Namespace of the agents.",
    ),
    click.Option(
        ["--via"], type=click.Choice(["proxy", "exec"]),
        help="Way to ask all nodes for their reports: the API server's proxy to the agents' pages, or `kubectl exec`. "
        "By default the first, and the second where that gives no answer.",
    ),
    click.Option(
        ["--parallel"], type=click.IntRange(1, 256), metavar="N",
        help="Number of agents to ask at once; by default 32.",
    ),
    click.Option(
        ["--timeout"], type=Duration(0.5, 43200), metavar="TIME",
        help="Time limit of each agent's answer; by default 5s for a page, and 60s for a verb beside its --duration.",
    ),
    click.Option(
        ["--debug"], is_flag=True,
        help="Run a privileged pod on the node by `kubectl debug` where no agent runs, and delete it afterwards.",
    ),
    click.Option(["--image"], metavar="IMAGE", help="Image of numaudit for --debug; by default that of the agents."),
)  # fmt: skip

_OF_SETUP: tuple[click.Option, ...] = (
    click.Option(["--alike"], is_flag=True, help="Compare the nodes, and name those that are unlike most others."),
    click.Option(
        ["--by"], metavar="LABEL",
        help="Label of nodes: compare those with the same value. By default node.kubernetes.io/instance-type.",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CommandLine:
    """One command line."""

    verb: tuple[str, ...]
    """Such as ("state", "verify")."""
    arguments: tuple[str, ...]
    """Options of the verb, as they were typed."""
    given: Mapping[str, str]
    """Name -> flag, of these options."""
    values: dict[str, object]
    """Name -> value of these options."""
    target: str | None
    manifest: bytes | None
    """Of `fit -f`."""
    takes_name: bool
    """The verb itself is about a pod."""
    namespace: str | None = None
    everywhere: bool = False
    node: str | None = None
    context: str | None = None
    kubeconfig: str | None = None
    agent_namespace: str = AGENT_NAMESPACE
    via: str | None = None
    parallel: int | None = None
    timeout: float | None = None
    debug: bool = False
    image: str | None = None
    alike: bool = False
    by: str | None = None
    """Label by which `setup --alike` groups nodes."""

    @property
    def name(self) -> str:
        return " ".join(self.verb)

    @property
    def output(self) -> str:
        return str(self.values.get("output") or "table")


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
    ("topology",): ("topology --node worker-7",),
    ("nrt",): ("nrt --node worker-7",),
    ("forecast",): ("forecast", "forecast --reboot --node worker-7"),
    ("setup",): ("setup", "setup --node worker-7 --all", "setup --alike --by pool"),
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
    ("topology",): "Show a node's NUMA nodes, CPUs, distances, memory, huge pages and memory tiers.",
    ("nrt",): "Print what a scheduler should know of a node (NodeResourceTopology).",
    ("forecast",): "Show which pods a restart of their kubelets, or of the nodes, would refuse or move.",
    ("setup",): "Check whether each node is set up to keep promises of memory, and whether nodes are set up alike.",
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
    params += [*own, *copy.deepcopy((*(_OF_SETUP if verb == ("setup",) else ()), *OPTIONS))]
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
            {name: _flag(options[name]) for name in typed},
            {name: values[name] for name in options},
            values.get("target"),
            manifest,
            takes_name,
            **mine,
        )
        return work.run(asked)

    return run


def _flag(option: click.Option) -> str:
    return max(option.opts, key=len)


def _typed(option: click.Option, value: Given) -> list[str]:
    flag = _flag(option)
    if option.is_flag:
        return [flag]
    return [f"{flag}={one}" for one in (value if option.multiple else [value])]
