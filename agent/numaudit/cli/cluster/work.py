"""Find who answers, ask one of them or all at once, and print, for `kubectl numaudit`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import click

from numaudit.api.cluster_document import ClusterReport, NodeAnswer, NodeAnswerList
from numaudit.cli import EXIT_CANNOT_ANSWER, EXIT_FINDINGS, EXIT_INCONCLUSIVE, printing
from numaudit.cli.cluster import alike_work
from numaudit.cli.cluster.verbs import CommandLine
from numaudit.cli.parameters import Duration, VerdictList
from numaudit.encoding.value import Origin, Timestamp
from numaudit.errors import InputError, Unavailable, printable
from numaudit.kubectl import answers as answers_of_agents
from numaudit.kubectl import debug_pod, remote
from numaudit.kubectl.answers import Fit
from numaudit.kubectl.api import Api, Forbidden, Kubectl, NotFound, proxied
from numaudit.kubectl.cluster import AGENTS, AgentPod, AgentPods, FoundPod, find_agents, find_pod, list_nodes, rule
from numaudit.kubectl.everywhere import PARALLEL, VERB_SECONDS, Replies, Way, ask_reports, ask_verb
from numaudit.kubectl.merged import merge
from numaudit.kubectl.objects import Node
from numaudit.kubectl.remote import RemoteVerb
from numaudit.kubectl.sentences import all_fit, fit_summary
from numaudit.views.terminal import cluster_tables, terminal

_LIVE_SECONDS = 12 * 3600.0
"""A live screen may stay for a working day; without its terminal it would, too."""
_OBJECT_SECONDS = 30.0
_OF_ONE = ("explain", "top", "topology", "nrt", "state show")
"""Verbs that no table of all nodes can show."""
_TYPES = {"node": "node", "nodes": "node", "no": "node", "pod": "pod", "pods": "pod", "po": "pod"}
_KINDS = {
    ("setup",): "Setup",
    ("doctor",): "Doctor",
    ("state", "verify"): "StateVerificationList",
    ("fit",): "Explanation",
    ("forecast",): "RestartForecast",
}
"""Verb -> the document that each node answers with."""
_MEANT_FOR_ALL = {
    ("report",): {"output", "top", "fail_on"},
    ("headroom",): {"output"},
    ("forecast",): {"output", "reboot", "kernel_huge_pages", "kubernetes_version", "feature_gates"},
    ("setup",): {"output", "skip", "fail_on"},
    ("doctor",): {"output", "require"},
    ("state", "verify"): {"output", "policies", "kubernetes_version", "feature_gates"},
    ("fit",): {"output", "pod", "with_room", "count", "fail_on_reject", "kubernetes_version", "feature_gates"},
}
"""Verb -> options that mean something for a table of all nodes."""
_TOP = 10


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
    if asked.alike or asked.by is not None:
        alike_work.check(asked, is_of_all=is_of_all)
    if is_of_all and asked.debug:
        raise InputError("--debug looks at one node: name a pod or --node")
    kubectl = Kubectl.find(asked.context, asked.kubeconfig)
    context, own_namespace = kubectl.context()
    _require_a_temporary_folder()
    with proxied(kubectl, _OBJECT_SECONDS) as api:
        if is_of_all:
            return _of_all(asked, api, kubectl, context, own_namespace)
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
            raise InputError(f"'{printable(name or '')}' is no name: it has bytes that are not UTF-8") from None


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
        return _print_reports(asked, api, kubectl, context, only, _namespace_of(asked, found), found)


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


def _of_all(asked: CommandLine, api: Api, kubectl: Kubectl, context: str | None, own_namespace: str) -> int:
    """Raises InputError, Unavailable and Forbidden."""
    if unused := sorted(asked.given.keys() - _MEANT_FOR_ALL[asked.verb]):
        raise InputError(f"{asked.given[unused[0]]} is for one pod or node: name one, or leave it out")
    if asked.output not in ("table", "json"):
        raise InputError(f"-o {asked.output} is for one pod or node; all nodes are a table or json")
    agents = find_agents(api, asked.agent_namespace)
    if not agents.by_node:
        raise Unavailable(
            f"no agent in namespace {asked.agent_namespace} (label {AGENTS}); --agent-namespace names another. Without "
            "an install, --node NODE --debug --image IMAGE looks at one node"
        )
    if asked.verb in (("report",), ("headroom",)):
        namespace = None if asked.everywhere or asked.verb == ("headroom",) else asked.namespace or own_namespace
        return _print_reports(asked, api, kubectl, context, agents, namespace, None, everyone=True)
    if asked.alike:
        return alike_work.run(asked, api, kubectl, context, agents)
    verb = RemoteVerb(_arguments_of_all(asked), asked.timeout or VERB_SECONDS, asked.manifest)
    return _print_answers(asked, context, ask_verb(kubectl, agents, list_nodes(api), verb, asked.parallel or PARALLEL))


def _arguments_of_all(asked: CommandLine) -> tuple[str, ...]:
    own = [one for one in asked.arguments if not one.startswith("--output")]
    return (*asked.verb, *own, *(["-f", "-"] if asked.manifest is not None else []), "-o", "json")


def _print_reports(
    asked: CommandLine, api: Api, kubectl: Kubectl, context: str | None, agents: AgentPods, namespace: str | None,
    found: FoundPod | None, *, everyone: bool = False,
) -> int:  # fmt: skip
    """The newest reports of these agents as one. Raises Forbidden and Unavailable."""
    way: Way | None = "proxy" if not everyone else "exec" if asked.via == "exec" else "proxy" if asked.via else None
    nodes = list_nodes(api) if everyone else []
    replies = ask_reports(api, kubectl, agents, nodes, way, asked.timeout, asked.parallel or PARALLEL)
    top = int(str(asked.values.get("top") or _TOP))
    of_pod = None if found is None else (found.pod.metadata.name, found.container)
    report = merge(replies, now=time.time(), context=context, namespace=namespace, top=top, of_pod=of_pod)
    if asked.output == "json":
        printing.write_json("ClusterReport", report, Origin(None, report.taken_at))
    elif asked.verb == ("headroom",):
        cluster_tables.print_headroom(report, terminal.console())
    else:
        cluster_tables.print_report(report, top, terminal.console())
    if not report.agents.reporting:
        return EXIT_CANNOT_ANSWER
    if not report.verdicts and namespace is not None and asked.verb == ("report",):
        sys.stdout.flush()
        click.echo(f"numaudit: no container is in namespace {namespace} there; -A shows all namespaces", err=True)
    return _gate(asked, report)


def _gate(asked: CommandLine, report: ClusterReport) -> int:
    if (text := asked.values.get("fail_on")) is None:
        return 0
    if any(report.verdicts.get(name) for name in VerdictList().convert(text, None, None)):
        return EXIT_FINDINGS
    if report.agents.reporting < len(report.nodes):
        raise Unavailable("--fail-on: no container has one of these verdicts, but not all nodes report")
    return 0


def _print_answers(asked: CommandLine, context: str | None, replies: Replies) -> int:
    answers: list[NodeAnswer] = []
    fits: list[tuple[Fit, ...]] = []
    for one in replies.by_node:
        document: dict[str, Any] | None = None
        problem = one.problem
        if one.body is not None:
            try:
                document = answers_of_agents.document(one.body, _KINDS[asked.verb])
                if asked.verb == ("fit",):
                    fits.append(answers_of_agents.fits(document))
            except ValueError as error:
                document, problem = None, str(error)
        agent = None if one.agent is None else one.agent.name
        answers.append(NodeAnswer(one.node, agent, one.exit_code, problem, document))
    summary = fit_summary(fits, len(answers) - len(fits)) if fits else None
    found = NodeAnswerList(context, asked.name, summary, answers, list(replies.notices))
    if asked.output == "json":
        printing.write_json("NodeAnswerList", found, Origin(None, Timestamp(time.time())))
    else:
        cluster_tables.print_answers(found, terminal.console())
    return _exit_code(asked, answers, fits)


def _exit_code(asked: CommandLine, answers: Sequence[NodeAnswer], fits: Sequence[Sequence[Fit]]) -> int:
    """The gravest of the nodes'; of `fit` it is about all nodes together."""
    codes = [one.exit_code or 0 for one in answers if one.document is not None]
    is_of_fit = asked.verb == ("fit",)
    if not codes:
        return EXIT_CANNOT_ANSWER
    if is_of_fit and all_fit(fits):
        return 0
    if EXIT_FINDINGS in codes and not is_of_fit:
        return EXIT_FINDINGS
    if len(codes) < len(answers):
        return EXIT_CANNOT_ANSWER
    if EXIT_INCONCLUSIVE in codes:
        return EXIT_INCONCLUSIVE
    return EXIT_FINDINGS if "fail_on_reject" in asked.given else max(codes)
