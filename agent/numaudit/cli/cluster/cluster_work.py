"""All agents at once, for `kubectl numaudit` without a pod or node."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from numaudit.api.cluster_document import ClusterReport, NodeAnswer, NodeAnswerList
from numaudit.cli import json_output
from numaudit.cli.cluster.verbs import CommandLine
from numaudit.cli.exits import EXIT_CANNOT_ANSWER, EXIT_FINDINGS, EXIT_INCONCLUSIVE
from numaudit.cli.parameters import VerdictList
from numaudit.encoding.value import Origin, Timestamp
from numaudit.errors import InputError, Unavailable
from numaudit.kubectl import answers as answers_of_agents
from numaudit.kubectl.answers import Fit
from numaudit.kubectl.api import Api
from numaudit.kubectl.cluster import AGENTS, AgentPods, FoundPod, find_agents, list_nodes
from numaudit.kubectl.everywhere import PARALLEL, VERB_SECONDS, Replies, Way, ask_reports, ask_verb
from numaudit.kubectl.merged import merge
from numaudit.kubectl.program import Kubectl
from numaudit.kubectl.remote import RemoteVerb
from numaudit.kubectl.sentences import all_fit, fit_summary
from numaudit.views.terminal import cluster_tables, terminal

_KINDS = {("doctor",): "Doctor", ("state", "verify"): "StateVerificationList", ("fit",): "Explanation"}
"""Verb -> the document that each node answers with."""
_OF_ALL = {
    ("report",): {"output", "top", "fail_on"},
    ("headroom",): {"output"},
    ("doctor",): {"output", "require"},
    ("state", "verify"): {"output", "policies", "kubernetes_version", "feature_gates"},
    ("fit",): {"output", "pod", "with_room", "count", "fail_on_reject", "kubernetes_version", "feature_gates"},
}
"""Verb -> options that mean something for a table of all nodes."""
_TOP = 10


def run(asked: CommandLine, api: Api, kubectl: Kubectl, context: str | None, own_namespace: str) -> int:
    """Raises InputError, Unavailable and Forbidden."""
    if unused := sorted(asked.given - _OF_ALL[asked.verb]):
        option = unused[0].replace("_", "-")
        raise InputError(f"--{option} is for one pod or node: name one, or leave it out")
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
        return print_reports(asked, api, kubectl, context, agents, namespace, None, everyone=True)
    verb = RemoteVerb(_arguments(asked), asked.timeout or VERB_SECONDS, asked.manifest)
    return _print_answers(asked, context, ask_verb(kubectl, agents, list_nodes(api), verb, asked.parallel or PARALLEL))


def _arguments(asked: CommandLine) -> tuple[str, ...]:
    own = [one for one in asked.arguments if not one.startswith("--output")]
    return (*asked.verb, *own, *(["-f", "-"] if asked.manifest is not None else []), "-o", "json")


def print_reports(
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
        json_output.write("ClusterReport", report, Origin(None, report.taken_at))
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
        json_output.write("NodeAnswerList", found, Origin(None, Timestamp(time.time())))
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
