"""`kubectl numaudit` with a real kubectl, against an API server in this process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import tools
from clusters import api_server
from clusters.api_server import ApiServer, Cluster, Page, Ran, Right, hanging, until
from documentation.schemas import validate
from numaudit.cli.cluster import plugin
from numaudit.cli.main import call
from numaudit.errors import Unavailable

Capture = pytest.CaptureFixture[str]
FIXTURES = Path(__file__).parents[1] / "fixtures"
CAPTURED = FIXTURES / "kubernetes-cluster.tar.xz"
OF_AGENTS = Right("list", "pods", "numaudit")
EXEC = {Right("get", "pods", "numaudit"), Right("create", "pods/exec", "numaudit")}
PROXY = Right("get", "pods/proxy", "numaudit")
NODES = Right("list", "nodes")
TOO_BIG = """
apiVersion: v1
kind: Pod
metadata: {name: too-big}
spec:
  containers: [{name: app, image: app, resources: {limits: {cpu: "1", memory: 100Gi}}}]
"""


@dataclass
class Lab:
    """A cluster with the node `worker-1` whose agent is the captured one, and a kubectl that reaches it."""

    server: ApiServer
    folder: Path
    asked: list[list[str]]
    """Command lines that agents got."""

    @property
    def cluster(self) -> Cluster:
        return self.server.cluster

    def log_in_as(self, patch: pytest.MonkeyPatch, token: str, namespace: str = "default") -> None:
        patch.setenv("KUBECONFIG", str(self.server.kubeconfig(self.folder, token, namespace)))


def numaudit_there(lab: list[list[str]], words: list[str], stdin: bytes) -> Ran:
    """The verb on the captured node, as a process, as in the agent's container."""
    assert words[0] == "timeout"
    own = words[words.index("numaudit") + 1 :]
    lab.append(own)
    code = "from numaudit.cli.start import run; run()"
    command = [sys.executable, "-c", code, *own, "--root", str(CAPTURED)]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    return Ran(done.stdout, done.stderr, done.returncode)


@pytest.fixture(scope="module")
def kubectl() -> Path:
    try:
        return tools.find("kubectl")
    except Unavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))


@pytest.fixture
def lab(kubectl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    cluster = Cluster()
    cluster.add_node("worker-1")
    cluster.add_agent("worker-1")
    cluster.add_pod("g-huge", "work", "worker-1")
    asked: list[list[str]] = []
    cluster.execute = lambda _, words, stdin: numaudit_there(asked, words, stdin)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{kubectl.parent}:{os.environ['PATH']}")
    with api_server.serving(cluster) as server:
        found = Lab(server, tmp_path, asked)
        found.log_in_as(monkeypatch, "admin")
        yield found


def canned(lab: Lab, ran: Ran) -> None:
    """Let every agent answer this to any verb."""

    def execute(_: str, words: list[str], stdin: bytes) -> Ran:
        lab.asked.append([*words[words.index("numaudit") + 1 :], *([stdin.decode()] if stdin else [])])
        return ran

    lab.cluster.execute = execute


@pytest.fixture(scope="module")
def report() -> bytes:
    """A real report, as an agent serves it."""
    return numaudit_there([], ["timeout", "numaudit", "report", "-o", "json"], b"").stdout


@pytest.mark.parametrize(
    ("asked", "there"),
    [
        (["report", "g-huge", "-n", "work"], ["report", "work/g-huge"]),
        (["explain", "g-huge/app", "-n", "work"], ["explain", "work/g-huge/app"]),
        (["headroom", "g-huge", "-n", "work"], ["headroom"]),
        (["state", "verify", "--node", "worker-1"], ["state", "verify"]),
        (["state", "show", "node/worker-1", "-o", "json"], ["state", "show", "-o", "json"]),
        (["doctor", "--node", "worker-1"], ["doctor"]),
        (["setup", "node/worker-1", "--skip", "slit-flat", "--all"], ["setup", "--skip", "slit-flat", "--all"]),
        (["topology", "node/worker-1"], ["topology"]),
        (["nrt", "--node", "worker-1", "-o", "json"], ["nrt", "-o", "json"]),
        (["forecast", "--reboot", "--node", "worker-1"], ["forecast", "--reboot"]),
        (["fit", "-f", "POD", "--node", "worker-1", "--fail-on-reject"], ["fit", "-f", "POD", "--fail-on-reject"]),
        (["report", "--node=worker-1", "--fail-on", "drifted,cpu-remote"], ["report", "--fail-on", "cpu-remote"]),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_verb_prints_and_ends_as_it_does_on_the_node(
    lab: Lab, capfd: Capture, asked: list[str], there: list[str], tmp_path: Path
) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text(TOO_BIG)
    words = [[str(pod) if word == "POD" else word for word in one] for one in (asked, there)]
    code = call([*words[1], "--root", str(CAPTURED)])
    local = capfd.readouterr().out
    assert plugin.call(words[0]) == code
    assert capfd.readouterr().out == local
    assert local


def test_the_names_of_kubectl_and_of_numaudit_find_a_pod(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    canned(lab, Ran(b"found\n"))
    lab.cluster.add_pod("alone", "jobs", "worker-1")
    lab.cluster.add_pod("etcd-worker-1", "kube-system", "worker-1")["metadata"]["annotations"] = {
        "kubernetes.io/config.mirror": "hash"
    }
    for words, there in {
        ("g-huge", "-n", "work"): "work/g-huge",
        ("g-huge/app", "--namespace=work"): "work/g-huge/app",
        ("work/g-huge",): "work/g-huge",
        ("work/g-huge/app",): "work/g-huge/app",
        ("pod/g-huge", "-n", "work"): "work/g-huge",
        ("alone", "-A"): "jobs/alone",
        ("alone/app", "--all-namespaces"): "jobs/alone/app",
        ("etcd", "-n", "kube-system"): "kube-system/etcd-worker-1",
    }.items():
        assert plugin.call(["report", *words]) == 0
        assert lab.asked.pop() == ["report", there]
    lab.log_in_as(monkeypatch, "admin", namespace="work")
    assert plugin.call(["explain", "g-huge"]) == 0
    assert plugin.call(["--context", "other", "report", "alone", "-n=jobs"]) == 0
    assert lab.asked == [["explain", "work/g-huge"], ["report", "jobs/alone"]]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["report", "waiting"], 3, "pod default/waiting is Pending and on no node yet: 0/3 nodes are available"),
        (["report", "g-hug", "-n", "work"], 2, "no pod 'g-hug' in namespace work; did you mean g-huge?"),
        (["report", "twin", "-A"], 2, "'twin' is 2 pods: a/twin, b/twin; -n names one"),
        (["report", "nope", "-A"], 2, "no pod 'nope' in any namespace"),
        (["explain", "a/b/c/d"], 2, "is no POD, POD/CONTAINER or NAMESPACE/POD/CONTAINER"),
        (["report", "--node", "worker-9"], 2, "the cluster has no node 'worker-9'"),
        (["report", "--node", "bare"], 3, "no agent runs on node bare (namespace numaudit); --debug looks without one"),
        (["report", "--node", "bare"], 3, "`kubectl debug node/bare -i -q --profile=sysadmin --image=registry"),
        (["report", "--node", "broken"], 3, "node broken: its agent does not run: CrashLoopBackOff"),
        (["report", "-A", "-n", "work"], 2, "-n and -A exclude each other"),
        (["report", "x", "--node", "bare"], 2, "a pod and --node exclude each other"),
        (["top"], 2, "`top` is of one node: name a pod or --node"),
        (["state", "show"], 2, "`state show` is of one node"),
        (["topology"], 2, "`topology` is of one node"),
        (["doctor", "--debug"], 2, "--debug looks at one node"),
        (["top", "--node", "worker-1"], 2, "top needs a terminal"),
        (["report", "--duration", "10s"], 2, "--duration is for one pod or node"),
        (["setup", "--all"], 2, "--all is for one pod or node"),
        (["setup", "--by", "pool"], 2, "--by is for --alike: add that, or leave it out"),
        (["setup", "--alike", "--node", "worker-1"], 2, "--alike compares all nodes: leave out the pod or node"),
        (["setup", "--alike", "--skip", "slit-flat"], 2, "leave out --skip"),
        (["report", "-o", "html"], 2, "-o html is for one pod or node"),
        (["report", "--sort", "size"], 2, "Invalid value for '--sort'"),
        (["report", "--context", "nowhere"], 2, "the kubeconfig has no context 'nowhere'; it has lab, other"),
        (["report", "--agent-namespace", "elsewhere"], 3, "no agent in namespace elsewhere"),
    ],
)
def test_what_cannot_be_asked_is_said_with_what_to_do(
    lab: Lab, capfd: Capture, words: list[str], code: int, said: str
) -> None:
    lab.cluster.add_node("bare")
    lab.cluster.add_node("broken")
    lab.cluster.add_agent("broken", running=False)
    waiting = lab.cluster.add_pod("waiting", "default", None)
    waiting["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    ]
    for namespace in "ab":
        lab.cluster.add_pod("twin", namespace, "worker-1")
    assert plugin.call(words) == code
    out, err = capfd.readouterr()
    assert said in err
    assert out == ""


@pytest.mark.parametrize("code", [0, 1, 2, 3, 5, 130])
def test_the_exit_code_and_messages_of_the_verb_are_those_of_the_plugin(lab: Lab, capfd: Capture, code: int) -> None:
    canned(lab, Ran(b"result\n", b"a notice\nand a reason\n", code))
    assert plugin.call(["report", "--node", "worker-1"]) == code
    assert capfd.readouterr() == ("result\n", "a notice\nand a reason\n")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (124, "did not end within 60 s; --timeout gives it longer"),
        (127, "cannot be started (exit code 127): is its image numaudit's own?"),
        (137, "was killed (exit code 137): it may have reached the container's memory limit"),
    ],
)
def test_a_verb_that_did_not_end_by_itself_is_no_answer(lab: Lab, capfd: Capture, code: int, said: str) -> None:
    canned(lab, Ran(exit_code=code))
    assert plugin.call(["doctor", "--node", "worker-1"]) == 3
    assert said in capfd.readouterr().err


def test_the_verb_ends_there_when_its_time_is_over_also_without_a_kubectl(lab: Lab) -> None:
    """Nothing else would end it: kubectl's end does not reach a process that has no terminal."""
    seen: list[list[str]] = []

    def execute(_: str, words: list[str], stdin: bytes) -> Ran:
        seen.append(words[: words.index("numaudit")])
        return Ran()

    lab.cluster.execute = execute
    assert plugin.call(["report", "--node", "worker-1", "--duration", "2m"]) == 0
    assert plugin.call(["report", "--node", "worker-1", "--timeout", "90s"]) == 0
    assert seen == [["timeout", "--kill-after=5", "180"], ["timeout", "--kill-after=5", "90"]]


def test_of_two_agents_on_a_node_the_ready_one_answers(lab: Lab, capfd: Capture) -> None:
    seen: list[str] = []

    def execute(pod: str, _: list[str], __: bytes) -> Ran:
        seen.append(pod)
        return Ran(b"x")

    lab.cluster.execute = execute
    lab.cluster.add_agent("worker-1", "numaudit-new", ready=False)
    assert plugin.call(["doctor", "--node", "worker-1"]) == 0
    assert seen == ["numaudit-worker-1"]
    assert "several agents run on worker-1, and numaudit/numaudit-worker-1 is asked" in capfd.readouterr().err
    lab.cluster.pods[0]["status"]["containerStatuses"][0]["ready"] = False
    lab.cluster.pods.pop()
    assert plugin.call(["doctor", "--node", "worker-1"]) == 0
    assert "the agent numaudit/numaudit-worker-1 is not ready" in capfd.readouterr().err


@pytest.mark.quiet
def test_a_thousand_agents_with_ten_dead_answer_within_thirty_seconds_and_the_dead_are_named(
    lab: Lab, capfd: Capture, report: bytes
) -> None:
    dead = {f"node-{number}.example" for number in range(7, 1000, 100)}
    for number in range(1000):
        name = f"node-{number}.example"
        lab.cluster.add_node(name)
        agent = lab.cluster.add_agent(name)
        answer = hanging(lab.cluster) if name in dead else lambda: Page(report, headers={"Numaudit-Age": "3.25"})
        lab.cluster.pages[agent] = answer
    lab.cluster.pages["numaudit-worker-1"] = lambda: Page(report)
    lab.cluster.add_node("bare.example")
    lab.cluster.add_node("windows", system="windows")
    begun = time.monotonic()
    assert plugin.call(["report", "-A", "-o", "json"]) == 0
    took = time.monotonic() - begun
    found = json.loads(capfd.readouterr().out)
    validate(found, "ClusterReport")
    states = {one["node"]: one["state"] for one in found["nodes"]}
    assert {name for name, state in states.items() if state == "down"} == dead
    assert [name for name, state in states.items() if state == "none"] == ["bare.example"]
    assert found["agents"]["reporting"] == 991
    assert len(states) == 1002
    one = next(one for one in found["nodes"] if one["node"] == "node-1.example")
    assert one["ageSeconds"] == 3.25
    judged = sum(one["verdict"] is not None for one in json.loads(report)["containers"])
    assert judged > 0
    assert sum(found["verdicts"].values()) == 991 * judged
    (missing,) = [text for text in found["notices"] if "there are no current values of" in text]
    assert all(name in missing for name in dead)
    assert took < 30


def test_the_cluster_adds_up_what_each_node_reports(lab: Lab, capfd: Capture, report: bytes) -> None:
    for name in ("worker-2", "worker-3"):
        lab.cluster.add_node(name)
        lab.cluster.add_agent(name)
    for agent in ("numaudit-worker-1", "numaudit-worker-2", "numaudit-worker-3"):
        lab.cluster.pages[agent] = lambda: Page(report)
    assert plugin.call(["report", "-n", "work", "-o", "json", "--top", "3"]) == 0
    found = json.loads(capfd.readouterr().out)
    own = json.loads(report)
    judged = [one for one in own["containers"] if one["verdict"] is not None and one["namespace"] == "work"]
    assert found["namespace"] == "work"
    assert sum(found["verdicts"].values()) == 3 * len(judged) > 0
    outside = [one["judgedBytes"] - one["alignedBytes"] for one in judged if one["alignedBytes"] is not None]
    assert found["misplacedBytes"] == 3 * sum(outside)
    tables = [one for one in own["memoryManager"]["tables"] if one["type"] == "memory"]
    assert found["freeBytes"] == 3 * sum(one["freeBytes"] for one in tables)
    assert len(found["worst"]) == 3
    assert found["context"] == "lab"
    assert plugin.call(["report", "-A", "--fail-on", "cpu-remote"]) == 1
    assert "All 3 nodes report" in capfd.readouterr().out
    assert plugin.call(["headroom"]) == 0
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()[:4]] == [
        "NODE", "worker-1", "worker-2", "worker-3",
    ]  # fmt: skip
    assert plugin.call(["report"]) == 0
    assert "no container is in namespace default there; -A shows all namespaces" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("page", "state", "said"),
    [
        (Page(b"<html>Sign in</html>"), "down", "its answer is no report"),
        (Page(b'{"apiVersion": "numaudit/v1", "ki', is_cut=True), "down", "the answer broke off"),
        (Page(b'{"apiVersion": "numaudit/v2", "kind": "Report"}'), "down", "its answer is of numaudit/v2, and this"),
        (Page(b'{"apiVersion": "numaudit/v1", "kind": "Doctor"}'), "down", "its answer is a Doctor, not a Report"),
        (Page(b'{"apiVersion": "numaudit/v1", "kind": "Report", "containers": 7}'), "down", "is no report"),
        (Page(b"no current snapshot to serve; see /-/healthy\n", 503), "stale", "no current snapshot to serve"),
        (Page(b"a user and password are needed\n", 401), "down", "its pages need a password (401)"),
        (Page(b"no such page; see /\n", 404), "down", "no such page"),
    ],
)
def test_a_broken_answer_is_a_row_with_its_reason(
    lab: Lab, capfd: Capture, report: bytes, page: Page, state: str, said: str
) -> None:
    lab.cluster.add_node("worker-2")
    lab.cluster.add_agent("worker-2")
    lab.cluster.pages |= {"numaudit-worker-1": lambda: Page(report), "numaudit-worker-2": lambda: page}
    assert plugin.call(["report", "-A", "-o", "json"]) == 0
    found = {one["node"]: one for one in json.loads(capfd.readouterr().out)["nodes"]}
    assert found["worker-1"]["state"] == "reporting"
    assert found["worker-2"]["state"] == state
    assert said in found["worker-2"]["problems"][0]


def test_where_nobody_reaches_the_pages_each_agent_is_asked_by_exec(lab: Lab, capfd: Capture) -> None:
    """As behind the NetworkPolicy of deploy/base, which keeps the API server out where plugins enforce that."""
    assert plugin.call(["report", "-A"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("1 node reports: 8 of ")
    assert "no agent answers through the API server's proxy" in out
    assert lab.asked == [["report", "-o", "json"]]
    assert lab.cluster.spoken == ["v5.channel.k8s.io"]
    assert plugin.call(["report", "-A", "--via", "proxy"]) == 3
    assert "no route to host" in capfd.readouterr().out


def test_verbs_without_a_page_are_asked_on_all_nodes_by_exec(lab: Lab, capfd: Capture, tmp_path: Path) -> None:
    lab.cluster.add_node("bare")
    pod = tmp_path / "pod.yaml"
    pod.write_text(TOO_BIG)
    assert plugin.call(["fit", "-f", str(pod), "-o", "json"]) == 3
    found = json.loads(capfd.readouterr().out)
    validate(found, "NodeAnswerList")
    bare, worker = found["answers"]
    assert (bare["node"], bare["document"], bare["problem"]) == ("bare", None, "no agent runs there")
    assert (worker["document"]["kind"], worker["document"]["admitted"]) == ("Explanation", False)
    assert found["summary"] == "default/too-big is refused on 1 node; no answer from 1 node"
    lab.cluster.nodes.pop()
    assert plugin.call(["fit", "-f", str(pod), "--fail-on-reject"]) == 1
    assert "worker-1  refused" in capfd.readouterr().out
    assert plugin.call(["doctor"]) == 0
    assert "checks ok" in capfd.readouterr().out
    assert plugin.call(["state", "verify"]) == 0
    assert "worker-1  valid   memory_manager_state, cpu_manager_state" in capfd.readouterr().out
    assert lab.asked[-1] == ["state", "verify", "-o", "json"]
    assert plugin.call(["forecast"]) == 0
    assert "worker-1  starts: yes; all 11 pods kept  -" in capfd.readouterr().out


def rule(id_: str, state: str) -> dict[str, object]:
    return {"id": id_, "state": state, "messages": ["it does not hold"]}


def answered(kind: str, **values: object) -> Ran:
    return Ran(json.dumps({"apiVersion": "numaudit/v1", "kind": kind, **values}).encode())


def test_the_setup_of_all_nodes_has_the_worst_node_first_and_names_those_without_an_answer(
    lab: Lab, capfd: Capture
) -> None:
    rules = {
        "worker-1": [rule("numa-off", "info"), rule("slit-flat", "pass")],
        "worker-2": [rule("reserved-sum", "accepted"), rule("slit-flat", "pass"), rule("numa-off", "not-judged")],
        "worker-3": [*(rule(f"rule-{letter}", "warning") for letter in "abcde"), rule("reserved-sum", "error")],
    }
    for name in ("worker-2", "worker-3", "silent"):
        lab.cluster.add_node(name)
        lab.cluster.add_agent(name, running=name != "silent")
    lab.cluster.add_node("bare")
    lab.cluster.execute = lambda pod, _, __: answered("Setup", rules=rules[pod.removeprefix("numaudit-")])
    assert plugin.call(["setup"]) == 3
    assert capfd.readouterr().out.splitlines() == [
        "NODE      ANSWER               WHY",
        "worker-3  1 error, 5 warnings  reserved-sum, rule-a, rule-b, rule-c and 2 more",
        "bare      no answer            no agent runs there",
        "silent    no answer            its agent does not run: CrashLoopBackOff",
        "worker-1  1 info               numa-off",
        "worker-2  1 of 3 rules hold    -",
    ]


def test_the_setup_of_a_real_node_is_checked_with_the_options_that_were_given(lab: Lab, capfd: Capture) -> None:
    assert plugin.call(["setup", "--skip", "slit-flat", "--fail-on", "warning", "-o", "json"]) == 1
    found = json.loads(capfd.readouterr().out)
    validate(found, "NodeAnswerList")
    assert lab.asked == [["setup", "--skip=slit-flat", "--fail-on=warning", "-o", "json"]]
    (answer,) = found["answers"]
    validate(answer["document"], "Setup")
    assert "reserved-uncovered" in [one["id"] for one in answer["document"]["rules"] if one["state"] == "warning"]
    assert plugin.call(["setup"]) == 0
    assert capfd.readouterr().out.splitlines()[1].startswith("worker-1  2 warnings")


def setup_of(lab: Lab) -> dict[str, Any]:
    """What a real node answers."""
    ran = numaudit_there([], ["timeout", "numaudit", "setup", "-o", "json"], b"")
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def with_fact(setup: dict[str, Any], name: str, value: object, numa_node: int | None = None) -> Ran:
    changed = [
        {**one, "value": value} if (one["name"], one["numaNode"]) == (name, numa_node) else one
        for one in setup["facts"]
    ]
    assert changed != setup["facts"]
    return Ran(json.dumps({**setup, "facts": changed}).encode())


def pool(lab: Lab, answers: dict[str, Ran | None], labels: dict[str, str]) -> None:
    """Nodes with these answers; None = its agent does not run."""
    lab.cluster.nodes.clear()
    lab.cluster.pods.clear()
    for name, answer in answers.items():
        lab.cluster.add_node(name)
        lab.cluster.nodes[-1]["metadata"]["labels"] |= labels
        lab.cluster.add_agent(name, running=answer is not None)

    def execute(pod: str, words: list[str], _: bytes) -> Ran:
        lab.asked.append(words[words.index("numaudit") + 1 :])
        answer = answers[pod.removeprefix("numaudit-")]
        assert answer is not None
        return answer

    lab.cluster.execute = execute


def test_of_nodes_that_should_be_alike_the_unlike_one_is_named_and_in_what(lab: Lab, capfd: Capture) -> None:
    setup = setup_of(lab)
    alike = Ran(json.dumps(setup).encode())
    old = Ran(json.dumps({"apiVersion": "numaudit/v1", "kind": "Setup", "rules": []}).encode())
    unlike = with_fact(setup, "reservedMemory", 500 << 20, 1)
    answers = {"worker-1": alike, "worker-2": alike, "worker-3": alike, "worker-7": unlike, "silent": None, "old": old}
    pool(lab, answers, {"node.kubernetes.io/instance-type": "m5.metal"})
    assert plugin.call(["setup", "--alike"]) == 3
    assert capfd.readouterr().out.splitlines() == [
        "node.kubernetes.io/instance-type m5.metal: 1 of 4 nodes is unlike",
        "NODE      SETTING                   HAS    OTHERS HAVE",
        "worker-7  reservedMemory of node 1  500Mi  100Mi",
        "",
        "old: not compared: its answer has no facts to compare: update the agent",
        "silent: not compared: its agent does not run: CrashLoopBackOff",
    ]
    assert lab.asked[-1] == ["setup", "--fail-on=never", "-o", "json"]
    assert plugin.call(["setup", "--alike", "--fail-on", "info", "-o", "json"]) == 1
    found = json.loads(capfd.readouterr().out)
    validate(found, "NodeComparison")
    (group,) = found["groups"]
    assert group["unlike"] == [
        {
            "name": "reservedMemory",
            "numaNode": 1,
            "majority": 100 << 20,
            "unlike": [{"value": 500 << 20, "names": ["worker-7"]}],
        }
    ]
    assert [one["node"] for one in found["notCompared"]] == ["old", "silent"]


def test_two_nodes_that_differ_are_both_named_and_versions_are_one_question(lab: Lab, capfd: Capture) -> None:
    setup = setup_of(lab)
    policy = json.loads(with_fact(setup, "memoryManagerPolicy", "None").stdout)
    other = with_fact({**policy, "generator": {"version": "0.0.9"}}, "kubelet version", "v1.35.1")
    pool(lab, {"worker-1": Ran(json.dumps(setup).encode()), "worker-2": other}, {"pool": "a"})
    assert plugin.call(["setup", "--alike"]) == 0
    version = setup["generator"]["version"]
    assert capfd.readouterr().out.splitlines() == [
        "node.kubernetes.io/instance-type without the label: 2 of 2 nodes are unlike",
        "NODE      SETTING              HAS     OTHERS HAVE",
        "worker-2  memoryManagerPolicy  None    Static (no majority)",
        "worker-1  memoryManagerPolicy  Static  None (no majority)",
        "Mixed versions, upgrading? kubelet version v1.35.1 on worker-2, v1.36.2 on worker-1; "
        f"numaudit version 0.0.9 on worker-2, {version} on worker-1",
        "",
        "no node that answers has the label node.kubernetes.io/instance-type, so all are one group",
    ]
    assert plugin.call(["setup", "--alike", "--by", "pool"]) == 0
    assert capfd.readouterr().out.startswith("pool a: 2 of 2 nodes are unlike\n")
    lab.cluster.nodes[0]["metadata"]["labels"]["pool"] = "b"
    assert plugin.call(["setup", "--alike", "--by", "pool", "--fail-on", "info"]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "pool a: only worker-2, so nothing is compared", "", "pool b: only worker-1, so nothing is compared", "",
    ]  # fmt: skip


def test_the_replicas_of_a_workload_are_added_up_over_all_nodes(lab: Lab, capfd: Capture, tmp_path: Path) -> None:
    lab.cluster.add_node("worker-2")
    lab.cluster.add_agent("worker-2")
    file, template = tmp_path / "web.yaml", {"spec": yaml.safe_load(TOO_BIG)["spec"]}
    template["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "10m", "memory": "50Mi"}

    def asked_for(replicas: int, *more: str, code: int) -> str:
        spec = {"replicas": replicas, "template": template}
        file.write_text(json.dumps({"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}))
        assert plugin.call(["fit", "-f", str(file), "-o", "json", *more]) == code
        found = json.loads(capfd.readouterr().out)
        validate(found, "NodeAnswerList")
        assert [one["exitCode"] for one in found["answers"]] == [0, 0]
        return str(found["summary"])

    one = json.dumps({"kind": "Pod", "metadata": {"name": "web"}, **template}).encode()
    alone = numaudit_there([], ["timeout", "numaudit", "fit", "-f", "-", "-o", "json", "--count=1000"], one)
    each = json.loads(alone.stdout)["replicas"]["fit"]
    assert 0 < each < 1000
    both = asked_for(2 * each, "--fail-on-reject", code=0)
    assert both == f"all {2 * each} default/web would be admitted, on 2 nodes"
    short = asked_for(2 * each + 1, "--fail-on-reject", code=1)
    assert short == f"{2 * each} of {2 * each + 1} default/web would be admitted, on 2 nodes"
    lab.cluster.add_node("bare")
    assert plugin.call(["fit", "-f", str(file), "--fail-on-reject"]) == 3
    out = capfd.readouterr().out
    assert out.startswith(
        f"{2 * each} of {2 * each + 1} default/web would be admitted, on 2 nodes; no answer from 1 node"
    )
    assert f"worker-2  {each} of {2 * each + 1} admitted" in out


def test_what_is_wrong_on_a_node_is_in_its_row(lab: Lab, capfd: Capture, tmp_path: Path) -> None:
    head = {"apiVersion": "numaudit/v1", "kind": "StateVerificationList"}
    finding = {"severity": "error", "message": "the checksum does not fit"}
    file = {"file": "/var/lib/kubelet/memory_manager_state", "valid": False, "startsNow": "no", "findings": [finding]}
    canned(lab, Ran(json.dumps({**head, "valid": False, "items": [file]}).encode(), exit_code=1))
    assert plugin.call(["state", "verify"]) == 1
    assert "worker-1  not valid  memory_manager_state: the checksum does not fit" in capfd.readouterr().out
    fates = [
        {"namespace": "prod", "pod": name, "fate": fate}
        for name, fate in zip("abc", ("kept", "refused", "elsewhere"), strict=True)
    ]
    canned(
        lab, Ran(json.dumps({**head, "kind": "RestartForecast", "starts": "yes", "pods": fates}).encode(), exit_code=1)
    )
    assert plugin.call(["forecast"]) == 1
    out = capfd.readouterr().out
    assert "worker-1  starts: yes; 1 refused, 1 elsewhere  prod/b refused, prod/c elsewhere" in out
    pods = [{"admitted": True, "sentence": "It fits."}, {"admitted": False, "sentence": "It does not."}]
    canned(lab, Ran(json.dumps({**head, "kind": "ExplanationList", "items": pods}).encode()))
    manifest = tmp_path / "pods.yaml"
    manifest.write_text(TOO_BIG)
    assert plugin.call(["fit", "-f", str(manifest)]) == 0
    assert "worker-1  1 of 2 admitted  It fits. It does not." in capfd.readouterr().out
    assert lab.asked[-1] == ["fit", "-f", "-", "-o", "json", TOO_BIG]


RIGHTS = {
    "a pod by exec": (["report", "g-huge", "-n", "work"], {Right("get", "pods", "work"), OF_AGENTS, *EXEC}),
    "a node by exec": (["doctor", "--node", "worker-1"], {OF_AGENTS, *EXEC}),
    "all nodes by proxy": (["report", "-A"], {NODES, OF_AGENTS, PROXY}),
    "all nodes by exec": (["report", "-A", "--via", "exec"], {NODES, OF_AGENTS, *EXEC}),
    "a node without an agent": (
        ["report", "--node", "bare", "--debug"],
        {
            OF_AGENTS,
            Right("get", "nodes"),
            *(Right(verb, "pods", "default") for verb in ("create", "get", "delete")),
            Right("get", "pods/log", "default"),
        },
    ),
}


def test_the_page_on_security_lists_these_rights() -> None:
    page = (FIXTURES.parents[1] / "docs/security.md").read_text(encoding="utf-8")
    table = page.partition("<!-- rights -->")[2].partition("<!-- end -->")[0]
    rows = re.findall(r"^\| (?!way|---)([^|]+) \| ([^|]+) \|$", table, re.MULTILINE)
    listed = {way: set(re.findall(r"`(\w+) ([\w/]+)`", rights)) for way, rights in rows}
    assert listed == {way: {(one.verb, one.resource) for one in rights} for way, (_, rights) in RIGHTS.items()}


@pytest.mark.parametrize("name", RIGHTS)
def test_the_documented_rights_are_enough_and_each_is_needed(
    lab: Lab, capfd: Capture, monkeypatch: pytest.MonkeyPatch, report: bytes, name: str
) -> None:
    words, rights = RIGHTS[name]
    lab.cluster.add_node("bare")
    lab.cluster.pages["numaudit-worker-1"] = lambda: Page(report)
    lab.cluster.run_pod = lambda _: Ran(b"seen\n")
    canned(lab, Ran(report))
    lab.cluster.allow("least", *rights)
    lab.log_in_as(monkeypatch, "least")
    assert plugin.call(words) == 0, capfd.readouterr().err
    assert set(lab.cluster.used) == rights
    capfd.readouterr()
    for missing in sorted(rights - {NODES, Right("get", "nodes")}):
        lab.cluster.pods = [one for one in lab.cluster.pods if not one["metadata"]["name"].startswith("numaudit-look-")]
        lab.cluster.allow("least", *(rights - {missing}))
        code = plugin.call(words)
        err = capfd.readouterr().err
        if missing == PROXY:
            assert "pods/exec" in err, "the other way was tried, too"
        assert (code, missing.resource in err) == (3, True), (missing, err)
        assert missing.verb in err


def test_without_the_right_to_list_nodes_those_with_an_agent_answer(
    lab: Lab, capfd: Capture, monkeypatch: pytest.MonkeyPatch, report: bytes
) -> None:
    lab.cluster.add_node("bare")
    lab.cluster.pages["numaudit-worker-1"] = lambda: Page(report)
    lab.cluster.allow("least", OF_AGENTS, PROXY)
    lab.log_in_as(monkeypatch, "least")
    assert plugin.call(["report", "-A"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("1 node reports")
    assert "nodes without an agent are not named: {apiGroups" in out


def test_without_the_right_to_exec_a_report_comes_from_the_agents_page(
    lab: Lab, capfd: Capture, monkeypatch: pytest.MonkeyPatch, report: bytes
) -> None:
    lab.cluster.pages["numaudit-worker-1"] = lambda: Page(report)
    lab.cluster.allow("least", Right("get", "pods", "work"), Right("get", "pods", "numaudit"), OF_AGENTS, PROXY)
    lab.log_in_as(monkeypatch, "least")
    assert plugin.call(["report", "g-huge", "-n", "work"]) == 0
    out, err = capfd.readouterr()
    assert "1 of 1 container misaligned" in out
    assert 'a role needs {apiGroups: [""], resources: [pods/exec], verbs: [create]} in namespace numaudit' in err
    assert plugin.call(["explain", "g-huge", "-n", "work"]) == 3


def test_whoever_is_not_logged_in_is_told_so(lab: Lab, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.log_in_as(monkeypatch, "nobody")
    assert plugin.call(["report", "-A"]) == 3
    assert "the API server does not know who asks (401)" in capfd.readouterr().err


def test_an_api_server_that_is_away_or_slow_is_exit_code_3(
    lab: Lab, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(os.environ["KUBECONFIG"])
    file.write_text(file.read_text().replace(lab.server.url, f"https://127.0.0.1:{api_server.closed_port()}"))
    assert plugin.call(["report", "-A"]) == 3
    assert "connection refused" in capfd.readouterr().err
    lab.log_in_as(monkeypatch, "admin")
    lab.cluster.slow = 600
    monkeypatch.setattr("numaudit.cli.cluster.work._OBJECT_SECONDS", 0.5)
    assert plugin.call(["report", "-A"]) == 3
    assert "no answer within 0.5 s" in capfd.readouterr().err


def test_a_kubectl_without_a_cluster_says_what_to_check(
    kubectl: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("PATH", f"{kubectl.parent}:{os.environ['PATH']}")
    assert plugin.call(["report"]) == 3
    said = capfd.readouterr().err
    assert "kubectl reaches no API server: " in said and "check KUBECONFIG, --kubeconfig and --context" in said


def test_without_kubectl_the_message_says_what_to_install(
    capfd: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert plugin.call(["report", "-A"]) == 3
    assert "kubectl is not on PATH" in capfd.readouterr().err


def test_a_look_without_an_agent_prints_ends_as_the_verb_and_leaves_no_pod(lab: Lab, capfd: Capture) -> None:
    lab.cluster.add_node("bare")
    made: list[api_server.Json] = []

    def run_pod(pod: api_server.Json) -> Ran:
        made.append(pod)
        return Ran(b"a report\n", exit_code=1)

    lab.cluster.run_pod = run_pod
    before = list(lab.cluster.pods)
    assert plugin.call(["doctor", "--node", "bare", "--debug", "--image", "mine:2", "-n", "kube-system"]) == 1
    out, err = capfd.readouterr()
    assert out == "a report\n"
    assert "no agent runs on node bare; a privileged pod looks instead" in err
    (pod,) = made
    (container,) = pod["spec"]["containers"]
    assert (pod["metadata"]["namespace"], pod["spec"]["nodeName"]) == ("kube-system", "bare")
    assert (container["image"], container["command"]) == ("mine:2", ["numaudit", "doctor"])
    assert container["securityContext"]["privileged"] is True
    assert (pod["spec"]["hostPID"], pod["spec"]["volumes"][0]["hostPath"]["path"]) == (True, "/")
    assert container["volumeMounts"] == [{"name": "host", "mountPath": "/host", "readOnly": True}]
    assert pod["spec"]["activeDeadlineSeconds"] == 120
    assert lab.cluster.pods == before


def test_ctrl_c_ends_the_plugin_and_its_kubectl_at_once(lab: Lab) -> None:
    lab.cluster.pages["numaudit-worker-1"] = hanging(lab.cluster)
    code = "from numaudit.cli.cluster.plugin import run; run()"
    command = [sys.executable, "-c", code, "report", "-A", "--timeout", "10m"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert until(lambda: PROXY in lab.cluster.used)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr is not None and process.stderr.read().strip() == b""
    assert until(lambda: not _in_session(process.pid))


def _in_session(leader: int) -> list[str]:
    done = subprocess.run(["ps", "-o", "args=", "-s", str(leader)], capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1]


def test_kubectl_finds_the_plugin_and_its_completion(lab: Lab, kubectl: Path, tmp_path: Path) -> None:
    """By their names on PATH, as an installation has them."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, function in {"kubectl-numaudit": "run", "kubectl_complete-numaudit": "complete"}.items():
        program = folder / name
        program.write_text(f"#!{sys.executable}\nfrom numaudit.cli.cluster.plugin import {function}\n{function}()\n")
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}

    def run(*words: str) -> str:
        done = subprocess.run([kubectl, *words], env=environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    assert str(folder / "kubectl-numaudit") in run("plugin", "list")
    assert run("numaudit", "--version").startswith("kubectl-numaudit, version ")
    assert run("__complete", "numaudit", "rep").splitlines()[0].startswith("report\t")
    assert run("__complete", "numaudit", "report", "-n", "work", "g").splitlines()[:2] == ["g-huge", ":4"]
    assert "worker-1" in run("__complete", "numaudit", "headroom", "--node", "").splitlines()
    assert "drifted" in run("__complete", "numaudit", "report", "--fail-on", "dri")
    assert ":0" in run("__complete", "numaudit", "fit", "-f", "")
