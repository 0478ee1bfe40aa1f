"""Options of `kubectl numaudit` beside those of the verb."""

from __future__ import annotations

from dataclasses import dataclass

import click
from click.shell_completion import CompletionItem

from numaudit.cli.progress import Duration
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
    from numaudit.kubectl.program import Kubectl

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


@dataclass(frozen=True, slots=True)
class CommandLine:
    """One command line."""

    verb: tuple[str, ...]
    """Such as ("state", "verify")."""
    arguments: tuple[str, ...]
    """Options of the verb, as they were typed."""
    given: frozenset[str]
    """Names of these options."""
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

    @property
    def name(self) -> str:
        return " ".join(self.verb)

    @property
    def output(self) -> str:
        return str(self.values.get("output") or "table")
