"""All agents of a cluster at once, within a bound, and what each answered. A node without an answer has a reason."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Literal

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.kubectl import remote
from numaudit.kubectl.api import LARGEST_ANSWER, Api, Forbidden, Kubectl, check, status_of
from numaudit.kubectl.cluster import AgentPod, AgentPods, rule
from numaudit.kubectl.objects import Node
from numaudit.kubectl.remote import RemoteVerb
from numaudit.net.connection import HttpAnswer, NotUnderstood

PARALLEL = 32
"""Agents that are asked at once, unless --parallel says another number."""
PAGE_SECONDS, VERB_SECONDS = 5.0, 60.0
_WORDS = 1000
"""Characters of an agent's message."""
_PROBED = 8
"""Agents that fail by HTTP, with none that answers, before the others are asked in another way."""
_REPORT = ("report", "-o", "json")

Way = Literal["proxy", "exec"]
State = Literal["reporting", "stale", "down", "none"]


class NodeReply(Struct, frozen=True):
    """One node's answer, or the reason why there is none."""

    node: str
    agent: AgentPod | None
    state: State
    body: bytes | None = None
    age: float | None = None
    """Seconds since what it says was measured; None = just now, or not known."""
    problem: str | None = None
    exit_code: int | None = None
    is_refused: bool = False
    """Whoever asks has no right to ask in this way."""


class Replies(Struct, frozen=True):
    """Of all nodes, by name."""

    by_node: tuple[NodeReply, ...]
    notices: tuple[str, ...] = ()


def ask_reports(
    api: Api, kubectl: Kubectl, agents: AgentPods, nodes: Sequence[Node] | None, way: Way | None,
    seconds: float | None, at_once: int,
) -> Replies:  # fmt: skip
    """The newest report of each agent. Without a `way` by HTTP, and by exec where that answers nothing.

    Raises Forbidden when neither way is allowed.
    """
    notices: list[str] = []
    first: list[NodeReply] = []
    if way != "exec":
        patience = seconds or PAGE_SECONDS
        first = _each(agents, lambda one: _report_of(api, one, patience), at_once, hopeless=way is None)
        if way == "proxy" or any(one.state in ("reporting", "stale") for one in first) or not first:
            _refuse_if_all_are(first)
            return _of_nodes(first, agents, nodes)
        reason = next((one.problem for one in first if one.problem), "")
        notices.append(
            f"no agent answers through the API server's proxy ({reason}), so each is asked by `kubectl exec`"
        )
    verb = RemoteVerb(_REPORT, seconds or VERB_SECONDS)
    second = _each(agents, lambda one: _reply_of(kubectl, one, verb), at_once, hopeless=False)
    _refuse_if_all_are(second, first)
    return _of_nodes(second, agents, nodes, notices)


def ask_verb(
    kubectl: Kubectl, agents: AgentPods, nodes: Sequence[Node] | None, verb: RemoteVerb, at_once: int
) -> Replies:
    """Any verb, by exec. Raises Forbidden when that is not allowed."""
    found = _each(agents, lambda one: _reply_of(kubectl, one, verb), at_once, hopeless=False)
    _refuse_if_all_are(found)
    return _of_nodes(found, agents, nodes)


def _refuse_if_all_are(replies: Sequence[NodeReply], before: Sequence[NodeReply] = ()) -> None:
    asked = [one for one in replies if one.agent is not None and one.agent.problem is None]
    if asked and all(one.is_refused for one in asked):
        also = next((f"; nor by HTTP: {one.problem}" for one in before if one.is_refused), "")
        raise Forbidden(f"{asked[0].problem}{also}")


def _each(agents: AgentPods, ask: Callable[[AgentPod], NodeReply], at_once: int, *, hopeless: bool) -> list[NodeReply]:
    """`hopeless`: stop after the first ones when none of them answers."""
    runs = [one for one in agents.by_node.values() if one.problem is None]
    found = [NodeReply(one.node, one, "down", problem=one.problem) for one in agents.by_node.values() if one.problem]
    is_over = threading.Event()
    executor = ThreadPoolExecutor(at_once, thread_name_prefix="agent")

    def guarded(one: AgentPod) -> NodeReply:
        if is_over.is_set():
            return NodeReply(one.node, one, "down", problem="it was not asked")
        try:
            return ask(one)
        except Forbidden as error:
            if hopeless:
                is_over.set()
            return NodeReply(one.node, one, "down", problem=str(error), is_refused=True)
        except Unavailable as error:
            return NodeReply(one.node, one, "down", problem=str(error))

    try:
        first = [executor.submit(guarded, one) for one in runs[:_PROBED]] if hopeless else []
        if len(runs) > _PROBED and first and all(one.result().state == "down" for one in as_completed(first)):
            return [*found, *(one.result() for one in first)]
        others = [executor.submit(guarded, one) for one in runs[len(first) :]]
        return [*found, *(one.result() for one in (*first, *others))]
    finally:
        is_over.set()
        executor.shutdown(wait=False, cancel_futures=True)


def _report_of(api: Api, agent: AgentPod, seconds: float) -> NodeReply:
    answer = api.get(f"{agent.address}/report.json", seconds)
    _check_proxy(answer, agent)
    if answer.status != 200:
        return NodeReply(agent.node, agent, "stale", problem=status_of(answer))
    try:
        return NodeReply(agent.node, agent, "reporting", answer.unpacked(LARGEST_ANSWER), _age(answer))
    except NotUnderstood as error:
        raise Unavailable(str(error)) from None


def _check_proxy(answer: HttpAnswer, agent: AgentPod) -> None:
    """An agent's own 503 has its age or no Status; every other failure is the API server's or a password's."""
    if answer.status in (200, 503) and b'"kind":"Status"' not in answer.body.replace(b": ", b":")[:200]:
        return
    if answer.status == 401 and b'"Status"' not in answer.body:
        raise Unavailable("its pages need a password (401)")
    check(answer, rule("pods/proxy", "get", where=agent.namespace))


def _age(answer: HttpAnswer) -> float | None:
    try:
        return float(answer.headers.get("Numaudit-Age", ""))
    except ValueError:
        return None


def _reply_of(kubectl: Kubectl, agent: AgentPod, verb: RemoteVerb) -> NodeReply:
    ended = remote.ask(kubectl, agent, verb)
    said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    problem = None if ended.stdout else (said[-1] if said else f"exit code {ended.exit_code} without a word")
    state: State = "reporting" if ended.stdout else "down"
    problem = None if problem is None else problem.removeprefix("numaudit: ")[:_WORDS]
    return NodeReply(agent.node, agent, state, ended.stdout or None, None, problem, ended.exit_code)


def _of_nodes(
    found: Sequence[NodeReply], agents: AgentPods, nodes: Sequence[Node] | None, notices: Sequence[str] = ()
) -> Replies:
    """The answers, and a row for each node without an agent."""
    rows = {one.node: one for one in found}
    for one in nodes or ():
        name = one.metadata.name
        rows.setdefault(name, NodeReply(name, None, "none", problem="no agent runs there"))
    unlisted = (
        () if nodes is not None else (f"nodes without an agent are not named: {rule('nodes', 'list')} is missing",)
    )
    listed = tuple(rows[name] for name in sorted(rows))
    return Replies(listed, (*agents.notices, *notices, *unlisted))
