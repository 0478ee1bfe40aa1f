"""What one agent makes up is that node's reason, takes little memory, and ends nobody else's answer."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from numaudit.errors import InputError, Unavailable
from numaudit.kubectl import answers
from numaudit.kubectl.answers import MOST_NAMES
from numaudit.kubectl.api import Kubectl
from numaudit.kubectl.cluster import AgentPod
from numaudit.kubectl.everywhere import NodeReply, Replies
from numaudit.kubectl.merged import merge
from numaudit.kubectl.remote import RemoteVerb, ask
from numaudit.kubectl.sentences import all_fit, fit_summary
from processes.input_cost import MIB, costs

HEAD: dict[str, Any] = {"apiVersion": "numaudit/v1", "kind": "Report"}
DRIFTED = {"name": "drifted"}
DEEP = b'{"apiVersion":"numaudit/v1","kind":"%s","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def reports(**fields: object) -> bytes:
    return json.dumps({**HEAD, **fields}).encode()


def one_of(**fields: object) -> bytes:
    return reports(containers=[{"pod": "a", "verdict": DRIFTED, **fields}])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (DEEP.replace(b"%s", b"Report"), "nested too deep"),
        (one_of(intended={"memoryNodes": [-1]}), "Expected `int` >= 0"),
        (one_of(intended={"memoryNodes": [1024]}), "Expected `int` <= 1023"),
        (one_of(judgedBytes=10**400), "Expected `int` <= 9223372036854775807"),
        (one_of(judgedBytes=1 << 63), "Expected `int` <= 9223372036854775807"),
        (one_of(judgedBytes=-1), "Expected `int` >= 0"),
        (one_of(container="x" * 301), "length <= 300"),
        (reports(memoryManager={"tables": [{"type": "memory", "freeBytes": -1}]}), "Expected `int` >= 0"),
        (reports(containers=[{"verdict": {"name": f"v{n}"}} for n in range(MOST_NAMES + 1)]), "has 65 verdicts"),
        (one_of(findings=[f"f{n}" for n in range(MOST_NAMES + 1)]), "has 65 findings"),
        (reports(sources=[{"source": str(n)} for n in range(MOST_NAMES + 1)]), "has 65 sources"),
        (reports(rejections=[{"reason": str(n)} for n in range(MOST_NAMES + 1)]), "has 65 reasons"),
        (b'{"apiVersion":"numaudit/v1","kind":"Report","containers":[' + b"{}," * 300_001 + b"{}]}", "600000 values"),
        (b"\xff\xfe", "its answer is no report"),
    ],
    ids=range(14),
)
def test_what_an_agent_makes_up_is_the_reason_of_its_node_alone(body: bytes, said: str) -> None:
    good = one_of(judgedBytes=(1 << 63) - 1, alignedBytes=0, intended={"memoryNodes": [0, 1023]}, container="x" * 300)
    replies = Replies((NodeReply("bad", None, "reporting", body), NodeReply("good", None, "reporting", good)))
    found = merge(replies, now=0.0, context=None, namespace=None, top=10)
    states = {one.node: one for one in found.nodes}
    assert states["good"].state == "reporting" and len(found.worst) == 1
    assert states["bad"].state == "down"
    assert said in states["bad"].problems[0]


def test_the_worst_node_comes_first() -> None:
    """A kubelet that would not start again, one that does not report, a misaligned container, and then by name."""
    unsafe = {"checkpoints": [{"file": "memory_manager_state", "startsNow": "no"}]}
    bodies = {"a": reports(), "b": one_of(verdict={"name": "spilled"}), "d": reports(**unsafe)}
    replies = tuple(NodeReply(name, None, "reporting", body) for name, body in bodies.items())
    replies = (*replies[:2], NodeReply("c", None, "down"), replies[2], NodeReply("e", None, "reporting", reports()))
    found = merge(Replies(replies), now=0.0, context=None, namespace=None, top=10)
    assert [one.node for one in found.nodes] == ["d", "c", "b", "a", "e"]


def test_names_up_to_the_limit_are_taken() -> None:
    found = answers.report(reports(sources=[{"source": str(n)} for n in range(MOST_NAMES)]))
    assert len(found.sources) == MOST_NAMES


@pytest.mark.parametrize("levels", [29, 40, 900, 100_000])
def test_a_document_of_another_verb_has_bounded_levels(levels: int) -> None:
    body = b'{"apiVersion":"numaudit/v1","kind":"Doctor","x":' + b"[" * levels + b"]" * levels + b"}"
    if levels == 29:
        assert answers.document(body, "Doctor")
    else:
        with pytest.raises(ValueError, match="nested"):
            answers.document(body, "Doctor")


def read(body: bytes) -> object:
    try:
        return answers.report(body)
    except ValueError as error:
        raise InputError(str(error)) from None


def test_no_answer_takes_many_times_its_size() -> None:
    head = b'{"apiVersion":"numaudit/v1","kind":"Report","containers":['
    inputs = {
        "16 MiB of objects": head + b"{}," * (16 * MIB // 3) + b"{}]}",
        "as many objects as there may be": head + b"{}," * 299_000 + b"{}]}",
        "deep": DEEP,
    }
    for name, cost in costs(read, inputs).items():
        assert cost.memory < 150 * MIB, name


def ask_a_kubectl_that_runs(script: str, folder: Path, seconds: float = 60.0) -> object:
    kubectl = folder / "kubectl"
    kubectl.write_text(f"#!/bin/sh\n{script}\n")
    kubectl.chmod(0o755)
    agent = AgentPod("node", "numaudit", "pod", "agent", "", 9746, False, True, "", None)
    return ask(Kubectl(str(kubectl)), agent, RemoteVerb(("doctor",), seconds))


def test_output_without_end_is_cut_off_and_the_command_ended(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="larger than 16777216 bytes"):
        ask_a_kubectl_that_runs("exec cat /dev/zero", tmp_path)


def test_messages_without_a_line_end_take_bounded_memory(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path\n"
        "from numaudit.kubectl.remote import run, RemoteVerb\n"
        "from numaudit.kubectl.cluster import AgentPod\n"
        "from numaudit.kubectl.api import Kubectl\n"
        "agent = AgentPod('n', 'numaudit', 'p', 'agent', '', 9746, False, True, '', None)\n"
        f"code = run(Kubectl({str(tmp_path / 'kubectl')!r}), agent, RemoteVerb(('report',), 60.0))\n"
        "print(code, Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])\n"
    )
    (tmp_path / "kubectl").write_text("#!/bin/sh\nhead -c 200000000 /dev/zero >&2\n")
    (tmp_path / "kubectl").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
    )
    code, peak = map(int, done.stdout.split())
    assert code == 0
    assert peak < 120 << 10, "KiB"


def test_on_a_terminal_an_agent_prints_escapes_and_moves_no_cursor(tmp_path: Path) -> None:
    program = (
        "from numaudit.kubectl.remote import run, RemoteVerb\n"
        "from numaudit.kubectl.cluster import AgentPod\n"
        "from numaudit.kubectl.api import Kubectl\n"
        "agent = AgentPod('n', 'numaudit', 'p', 'agent', '', 9746, False, True, '', None)\n"
        f"run(Kubectl({str(tmp_path / 'kubectl')!r}), agent, RemoteVerb(('report',), 60.0))\n"
    )
    (tmp_path / "kubectl").write_text("#!/bin/sh\nprintf 'a\\033]52;c;eA==\\007\\nb\\233 \\303\\251\\n'\n")
    (tmp_path / "kubectl").chmod(0o755)
    shown = bytearray()

    def keep(descriptor: int) -> bytes:
        part = os.read(descriptor, 1024)
        shown.extend(part)
        return part

    child, master = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", program])
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while keep(master):
            pass
    assert os.waitpid(child, 0)[1] == 0
    os.close(master)
    assert shown.decode() == "a\\x1b]52;c;eA==\\x07\r\nb\\x9b é\r\n"


def _fits(**fields: object) -> tuple[answers.Fit, ...]:
    return answers.fits({"kind": "Explanation", "pod": "prod/web", **fields})


FULL = _fits(admitted=False, replicas={"asked": 3, "fit": 0})
TWO = _fits(admitted=True, replicas={"asked": 3, "fit": 2})
ONE = _fits(admitted=True, replicas={"asked": 3, "fit": 1})
DOUBTED = _fits(admitted=True, replicas={"asked": 3, "fit": 3}, doubt={"decides": True})


@pytest.mark.parametrize(
    ("of_nodes", "silent", "said", "all_of_them"),
    [
        ([TWO, ONE], 0, "all 3 prod/web would be admitted, on 2 nodes", True),
        (
            [TWO, FULL],
            1,
            "2 of 3 prod/web would be admitted, on 1 node, refused on 1 node; no answer from 1 node",
            False,
        ),
        ([FULL, FULL], 0, "prod/web is refused on 2 nodes", False),
        ([DOUBTED], 0, "prod/web: not known of 1 node", False),
        ([DOUBTED, TWO], 0, "2 of 3 prod/web would be admitted, on 1 node, not known of 1 node", False),
        ([_fits(admitted=True)], 0, "prod/web would be admitted, on 1 node", True),
    ],
)
def test_replicas_are_added_up_over_the_nodes_whose_answer_is_certain(
    of_nodes: list[tuple[answers.Fit, ...]], silent: int, said: str, all_of_them: bool
) -> None:
    assert fit_summary(of_nodes, silent) == said
    assert all_fit(of_nodes) is all_of_them


def test_an_agent_that_says_more_fit_than_were_asked_for_counts_for_no_more() -> None:
    (one,) = _fits(admitted=True, replicas={"asked": 3, "fit": 1000})
    assert one.fit == 3
    with pytest.raises(ValueError, match="no Explanation"):
        _fits(replicas={"asked": -1, "fit": 0})
