"""`kubectl numaudit setup --alike`: ask all agents how their nodes are set up, compare, and print."""

from __future__ import annotations

import time

from numaudit.api.cluster_document import NodeAnswer, NodeComparison
from numaudit.cli import EXIT_CANNOT_ANSWER, EXIT_FINDINGS, printing
from numaudit.cli.cluster.verbs import CommandLine
from numaudit.encoding.value import Origin, Timestamp
from numaudit.errors import InputError
from numaudit.evaluation.setup.facts import SetupFact
from numaudit.kubectl import answers
from numaudit.kubectl.alike import AGENT, INSTANCE_TYPE, compare
from numaudit.kubectl.api import Api, Kubectl
from numaudit.kubectl.cluster import AgentPods, list_nodes
from numaudit.kubectl.everywhere import PARALLEL, VERB_SECONDS, NodeReply, ask_verb
from numaudit.kubectl.remote import RemoteVerb
from numaudit.views.terminal import alike_tables, terminal

_VERB = ("setup", "--fail-on=never", "-o", "json")


def check(asked: CommandLine, *, is_of_all: bool) -> None:
    """Raises InputError for options that do not go together."""
    if not asked.alike:
        raise InputError("--by is for --alike: add that, or leave it out")
    if not is_of_all:
        raise InputError("--alike compares all nodes: leave out the pod or node")
    if "skip" in asked.given:
        raise InputError("--alike compares settings and judges no rules: leave out --skip")


def run(asked: CommandLine, api: Api, kubectl: Kubectl, context: str | None, agents: AgentPods) -> int:
    """Nodes that are unlike are worth knowing, so exit code 1 needs `--fail-on info`. Raises Forbidden, Unavailable."""
    nodes = list_nodes(api)
    verb = RemoteVerb(_VERB, asked.timeout or VERB_SECONDS)
    replies = ask_verb(kubectl, agents, nodes, verb, asked.parallel or PARALLEL)
    facts: dict[str, tuple[SetupFact, ...]] = {}
    silent: list[NodeAnswer] = []
    for one in replies.by_node:
        try:
            if one.body is None:
                raise ValueError(one.problem or "no answer")
            facts[one.node] = _facts(one.body)
        except ValueError as error:
            silent.append(_without_facts(one, str(error)))
    label = asked.by or INSTANCE_TYPE
    labels = {one.metadata.name: (one.metadata.labels or {}).get(label) for one in nodes or ()}
    notices = list(replies.notices)
    if facts and not any(labels.get(node) for node in facts):
        why = "labels of nodes are not known" if nodes is None else f"no node that answers has the label {label}"
        notices.append(f"{why}, so all are one group")
    found = NodeComparison(context, label, compare(facts, labels), silent, notices)
    if asked.output == "json":
        printing.write_json("NodeComparison", found, Origin(None, Timestamp(time.time())))
    else:
        alike_tables.print_comparison(found, terminal.console())
    if asked.values.get("fail_on") == "info" and any(one.unlike or one.versions for one in found.groups):
        return EXIT_FINDINGS
    return EXIT_CANNOT_ANSWER if silent else 0


def _facts(body: bytes) -> tuple[SetupFact, ...]:
    """Raises ValueError."""
    document = answers.document(body, "Setup")
    generator = document.get("generator")
    version = generator.get("version") if isinstance(generator, dict) else None
    return (*answers.facts(document), SetupFact(AGENT, None if version is None else str(version)))


def _without_facts(one: NodeReply, problem: str) -> NodeAnswer:
    return NodeAnswer(one.node, None if one.agent is None else one.agent.name, one.exit_code, problem, None)
