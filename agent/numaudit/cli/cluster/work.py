"""Find who answers, ask, and print, for `kubectl numaudit`."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from urllib.parse import quote

import click

from numaudit.cli.cluster import cluster_work
from numaudit.cli.cluster.verbs import CommandLine
from numaudit.errors import InputError, Unavailable, printable
from numaudit.kubectl import debug_pod, remote
from numaudit.kubectl.api import Api, Forbidden, NotFound, proxied
from numaudit.kubectl.cluster import AgentPod, AgentPods, FoundPod, find_agents, find_pod, rule
from numaudit.kubectl.everywhere import VERB_SECONDS
from numaudit.kubectl.objects import Node
from numaudit.kubectl.program import Kubectl
from numaudit.kubectl.remote import RemoteVerb

_LIVE_SECONDS = 12 * 3600.0
"""A live screen may stay for a working day; without its terminal it would, too."""
_OBJECT_SECONDS = 30.0
_OF_ONE = ("explain", "top", "state show")
"""Verbs that no table of all nodes can show."""
_TYPES = {"node": "node", "nodes": "node", "no": "node", "pod": "pod", "pods": "pod", "po": "pod"}


def run(asked: CommandLine) -> int:
    """Raises InputError, Unavailable and Forbidden."""
    _require_text(asked)
    asked = _with_typed_target(asked)
    if asked.everywhere and asked.namespace is not None:
        raise InputError("-n and -A exclude each other: leave out one")
    if asked.node is not None and asked.target is not None:
        raise InputError("a pod and --node exclude each other: leave out one")
    is_of_all = asked.node is None and asked.target is None
    if is_of_all and asked.name in _OF_ONE:
        raise InputError(f"`{asked.name}` is of one node: name a pod or --node; `report -A` shows all nodes")
    if is_of_all and asked.debug:
        raise InputError("--debug looks at one node: name a pod or --node")
    kubectl = Kubectl.find(asked.context, asked.kubeconfig)
    context, own_namespace = kubectl.context()
    _require_a_temporary_folder()
    with proxied(kubectl, _OBJECT_SECONDS) as api:
        if is_of_all:
            return cluster_work.run(asked, api, kubectl, context, own_namespace)
        return _of_one(asked, api, kubectl, context, own_namespace)


def _require_a_temporary_folder() -> None:
    """For the socket of `kubectl proxy`. Raises InputError."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        raise InputError("no temporary folder can be written; set TMPDIR to one, or raise ulimit -f") from None


def _require_text(asked: CommandLine) -> None:
    """Raises InputError for a name with bytes that no name in a cluster can have."""
    for name in (asked.target, asked.node, asked.namespace, asked.agent_namespace, asked.context, asked.image):
        try:
            (name or "").encode()
        except UnicodeEncodeError:
            raise InputError(f"{printable(name or '')!r} is no name: it has bytes that are not UTF-8") from None


def _with_typed_target(asked: CommandLine) -> CommandLine:
    """`node/N` and `pod/P`, as kubectl has them."""
    kind, slash, name = (asked.target or "").partition("/")
    if not slash or kind not in _TYPES:
        return asked
    if _TYPES[kind] == "pod":
        return replace(asked, target=name)
    if asked.node is not None:
        raise InputError("node/NAME and --node exclude each other: leave out one")
    return replace(asked, target=None, node=name)


def _of_one(asked: CommandLine, api: Api, kubectl: Kubectl, context: str | None, own_namespace: str) -> int:
    found = None
    if asked.target is not None:
        found = find_pod(api, asked.target, asked.namespace or own_namespace, asked.everywhere)
    node = asked.node if found is None else found.node
    assert node is not None
    agents = find_agents(api, asked.agent_namespace)
    agent = agents.by_node.get(node)
    if agent is None or agent.problem is not None:
        _require_node(api, node)
        return _without_agent(asked, api, kubectl, node, agent, agents, found)
    _say(agents, agent, node)
    arguments = _arguments(asked, found)
    is_live = asked.verb == ("top",) or "watch" in asked.given
    seconds = _LIVE_SECONDS if is_live else (asked.timeout or VERB_SECONDS) + _duration(asked)
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty() and asked.manifest is None
    if asked.verb == ("top",) and not at_terminal:
        raise InputError("top needs a terminal, and standard input or output is none; `report` needs none")
    verb = RemoteVerb(arguments, seconds, asked.manifest, at_terminal and is_live)
    try:
        return remote.run(kubectl, agent, verb)
    except Forbidden as refused:
        if asked.verb != ("report",) or asked.output not in ("table", "json"):
            raise
        click.echo(f"numaudit: {refused}", err=True)
        click.echo(f"numaudit: so this is from the newest report of {agent.name}, by HTTP", err=True)
        only = AgentPods({node: agent})
        return cluster_work.print_reports(asked, api, kubectl, context, only, _namespace_of(asked, found), found)


def _namespace_of(asked: CommandLine, found: FoundPod | None) -> str | None:
    return asked.namespace if found is None else found.pod.metadata.namespace


def _arguments(asked: CommandLine, found: FoundPod | None) -> tuple[str, ...]:
    """The command line of the verb on the node."""
    words = [*asked.verb, *asked.arguments]
    if asked.manifest is not None:
        words += ["-f", "-"]
    if not asked.takes_name:
        return tuple(words)
    if found is None:
        return (*words, f"--namespace={asked.namespace}") if asked.namespace is not None else tuple(words)
    name = f"{found.pod.metadata.namespace}/{found.name}"
    return (*words, name)


def _duration(asked: CommandLine) -> float:
    from numaudit.cli.parameters import Duration

    value = asked.values.get("duration")
    return 0.0 if value is None else Duration().convert(value, None, None)


def _say(agents: AgentPods, agent: AgentPod, node: str) -> None:
    for notice in agents.notices:
        if f" on {node}," in notice:
            click.echo(f"numaudit: {notice}", err=True)
    if not agent.is_ready:
        click.echo(f"numaudit: the agent {agent.name} is not ready; its answer may lack measurements", err=True)


def _require_node(api: Api, node: str) -> None:
    """Raises InputError for a node that the cluster does not have; whoever may not ask is not told."""
    try:
        api.object(f"/api/v1/nodes/{quote(node, safe='')}", Node, rule("nodes", "get"))
    except NotFound:
        raise InputError(f"the cluster has no node {node!r}; `kubectl get nodes` lists them") from None
    except Forbidden:
        return


def _without_agent(
    asked: CommandLine,
    api: Api,
    kubectl: Kubectl,
    node: str,
    agent: AgentPod | None,
    agents: AgentPods,
    found: FoundPod | None,
) -> int:
    why = f"no agent runs on node {node}" if agent is None else f"node {node}: {agent.problem}"
    image = asked.image or agents.image
    arguments = _arguments(asked, found)
    look = debug_pod.Look(node, image or "IMAGE", ("numaudit", *arguments))
    if not asked.debug:
        raise Unavailable(
            f"{why} (namespace {asked.agent_namespace}); --debug looks without one, in a privileged pod, as does "
            f"`{look.in_words(asked.namespace)}`"
        )
    if asked.manifest is not None:
        raise InputError("--debug has no standard input, so it cannot hand on a pod; run `numaudit fit` on the node")
    if image is None:
        raise InputError("--debug needs --image, since no agent shows one")
    click.echo(f"numaudit: {why}; a privileged pod looks instead", err=True)
    namespace = asked.namespace if found is None else None
    return debug_pod.run(api, kubectl, look, namespace or "default", (asked.timeout or 120.0) + _duration(asked))
