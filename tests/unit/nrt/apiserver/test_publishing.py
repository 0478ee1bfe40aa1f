"""Rounds of publishing at an API server with server-side apply, the resource's schema and RBAC."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from clusters.api_server import ApiServer as Server
from clusters.api_server import Fault, Right, closed_port
from clusters.api_topologies import MOST_ANNOTATION_BYTES, RESOURCE
from clusters.topologies import NFD, discover, whole
from numaudit.net.target import LONGEST_WAIT
from numaudit.nrt.apiserver.client import ApiServer, find_config
from numaudit.nrt.apiserver.failures import ApiFailure, Reason
from numaudit.nrt.apiserver.publishing import MANAGER, MANAGER_OF_ZONES, Round, Wanted, node_of, publish
from processes.certificates import Authority

OURS = {"numaudit.io/groups": '{"version":1}', "numaudit.io/kubelet": '{"version":1,"policy":"Static"}'}


@contextmanager
def asking(kubeconfig: Path, seconds: float = 20.0) -> Iterator[ApiServer]:
    client = ApiServer(find_config(kubeconfig), seconds)
    try:
        yield client
    finally:
        client.close()


def published(
    kubeconfig: Path, annotations: Mapping[str, str] = OURS, whole: Mapping[str, object] | None = None
) -> Round:
    with asking(kubeconfig) as client:
        return publish(client, "node1", lambda _: Wanted(annotations, whole))


def failure(kubeconfig: Path, seconds: float = 20.0) -> ApiFailure:
    with asking(kubeconfig, seconds) as client, pytest.raises(ApiFailure) as caught:
        publish(client, "node1", lambda _: Wanted(OURS))
    return caught.value


def refusal(kubeconfig: Path) -> ApiFailure:
    """Of the whole object."""
    found = published(kubeconfig, whole=whole()).refusal
    assert found is not None
    return found


def stored(server: Server) -> dict[str, object]:
    return server.cluster.topologies.stored["node1"].shown()


def manager(server: Server, name: str) -> set[tuple[str, ...]]:
    found = [one.fields for one in server.cluster.topologies.stored["node1"].managers if one.name == name]
    return found[0] if found else set()


def test_annotations_are_ours_and_zones_stay_with_their_writer(server: Server, kubeconfig: Path) -> None:
    discover(server.cluster.topologies)
    assert published(kubeconfig).written == ("annotations",)
    value = server.cluster.topologies.stored["node1"].value
    assert value["metadata"]["annotations"] == OURS
    assert value["zones"] == whole()["zones"]
    assert manager(server, MANAGER) == {("metadata", "annotations", key) for key in OURS}
    assert manager(server, NFD) == {("zones",), ("attributes",)}


def test_nothing_is_written_where_nothing_changed(server: Server, kubeconfig: Path) -> None:
    discover(server.cluster.topologies)
    published(kubeconfig)
    before, writes = stored(server), server.cluster.topologies.writes
    server.cluster.used.clear()
    assert published(kubeconfig).written == ()
    assert (stored(server), server.cluster.topologies.writes) == (before, writes)
    assert [right.verb for right in server.cluster.used] == ["get"]


def test_a_key_that_is_no_longer_known_goes_and_others_annotations_stay(server: Server, kubeconfig: Path) -> None:
    discover(server.cluster.topologies)
    server.cluster.topologies.merge("node1", {"metadata": {"annotations": {"example.com/a": "theirs"}}}, "rte")
    published(kubeconfig)
    published(kubeconfig, {"numaudit.io/kubelet": "new"})
    annotations = server.cluster.topologies.stored["node1"].value["metadata"]["annotations"]
    assert annotations == {"example.com/a": "theirs", "numaudit.io/kubelet": "new"}


def test_an_annotation_of_ours_that_somebody_edited_becomes_ours_again(server: Server, kubeconfig: Path) -> None:
    discover(server.cluster.topologies)
    published(kubeconfig)
    edited = {"metadata": {"annotations": {"numaudit.io/groups": "edited", "numaudit.io/strange": "1"}}}
    server.cluster.topologies.merge("node1", edited, "kubectl-edit")
    published(kubeconfig)
    annotations = server.cluster.topologies.stored["node1"].value["metadata"]["annotations"]
    assert {key: annotations[key] for key in OURS} == OURS


def rounds_of_both(server: Server, kubeconfig: Path, rounds: int) -> None:
    """Both writers in turn, in an order that differs, each with other values in most rounds."""
    topologies, chance = server.cluster.topologies, random.Random(rounds)
    discover(topologies)
    with asking(kubeconfig) as client:
        for number in range(rounds):
            available, policy = str(chance.randrange(5)), chance.choice(("none", "best-effort", "restricted"))
            ours = {key: f"{value} {number if chance.random() < 0.8 else 0}" for key, value in OURS.items()}
            turns: list[Callable[[], object]] = [
                lambda available=available, policy=policy: discover(topologies, "node1", available, policy),  # type: ignore[misc]
                lambda ours=ours: publish(client, "node1", lambda _: Wanted(ours)),  # type: ignore[misc]
            ]
            chance.shuffle(turns)
            for turn in turns:
                turn()
            value = topologies.stored["node1"].value
            assert {name: value[name] for name in ("zones", "attributes")} == whole(available, policy)
            assert value["metadata"]["annotations"] == ours
            assert manager(server, NFD) == {("zones",), ("attributes",)}
            assert manager(server, MANAGER) == {("metadata", "annotations", key) for key in OURS}


def test_another_writer_keeps_zones_and_attributes_through_rounds_of_both(server: Server, kubeconfig: Path) -> None:
    rounds_of_both(server, kubeconfig, 15)


def own(server: Server, kubeconfig: Path) -> Path:
    """With the right to create, too."""
    server.cluster.allow("agent", *(Right(verb, RESOURCE) for verb in ("get", "patch", "create")))
    return kubeconfig


def test_the_whole_object_is_made_where_there_is_none(server: Server, kubeconfig: Path) -> None:
    assert published(own(server, kubeconfig), whole=whole()).written == ("the object", "annotations")
    value = server.cluster.topologies.stored["node1"].value
    assert {name: value[name] for name in ("zones", "attributes")} == whole()
    assert value["metadata"]["annotations"] == OURS
    assert manager(server, MANAGER_OF_ZONES) == {("zones",), ("attributes",)}
    assert published(kubeconfig, whole=whole()).written == ()
    assert published(kubeconfig, whole=whole("1")).written == ("the object",)
    server.cluster.topologies.delete("node1")
    assert published(kubeconfig, whole=whole("1")).written == ("the object", "annotations")


def test_zones_of_another_writer_are_refused_by_its_name_and_annotations_are_written(
    server: Server, kubeconfig: Path
) -> None:
    discover(server.cluster.topologies, available="2")
    found = refusal(own(server, kubeconfig))
    assert found.reason is Reason.OWNED
    assert NFD in str(found)
    assert found.__traceback__ is None  # it is kept until the next round, which its frames are not for
    value = server.cluster.topologies.stored["node1"].value
    assert value["zones"] == whole("2")["zones"]
    assert value["metadata"]["annotations"] == OURS


def test_a_writer_that_comes_later_takes_the_zones_and_keeps_them(server: Server, kubeconfig: Path) -> None:
    published(own(server, kubeconfig), whole=whole())
    discover(server.cluster.topologies, available="1")
    assert NFD in str(refusal(kubeconfig))
    assert server.cluster.topologies.stored["node1"].value["zones"] == whole("1")["zones"]


def test_a_writer_that_comes_between_our_look_and_our_write_keeps_its_zones(server: Server, kubeconfig: Path) -> None:
    published(own(server, kubeconfig), whole=whole())

    def describe(_: Mapping[str, str]) -> Wanted:
        discover(server.cluster.topologies, available="1")
        return Wanted(OURS, whole("2"))

    with asking(kubeconfig) as client:
        found = publish(client, "node1", describe).refusal
    assert found is not None
    assert found.reason is Reason.OWNED
    assert NFD in str(found)
    assert server.cluster.topologies.stored["node1"].value["zones"] == whole("1")["zones"]


def test_an_agent_that_owns_no_longer_leaves_the_zones_there(server: Server, kubeconfig: Path) -> None:
    published(own(server, kubeconfig), whole=whole())
    assert published(kubeconfig, {"numaudit.io/kubelet": "new"}).written == ("annotations",)
    assert server.cluster.topologies.stored["node1"].value["zones"] == whole()["zones"]


def test_zones_without_a_known_writer_are_not_overwritten(server: Server, kubeconfig: Path) -> None:
    discover(server.cluster.topologies)
    server.cluster.topologies.stored["node1"].managers.clear()
    found = refusal(own(server, kubeconfig))
    assert found.reason is Reason.OWNED
    assert "a writer without a name" in str(found)


def test_annotations_beyond_what_kubernetes_takes_are_not_sent(server: Server, kubeconfig: Path) -> None:
    discover(server.cluster.topologies)
    theirs = {"example.com/a": "x" * (MOST_ANNOTATION_BYTES - 50)}
    server.cluster.topologies.merge("node1", {"metadata": {"annotations": theirs}}, "somebody")
    writes = server.cluster.topologies.writes
    found = failure(kubeconfig)
    assert found.reason is Reason.TOO_LARGE
    assert f"Kubernetes allows {MOST_ANNOTATION_BYTES}" in str(found)
    assert server.cluster.topologies.writes == writes


def test_without_the_right_to_patch_it_says_which_right_is_missing(server: Server, kubeconfig: Path) -> None:
    discover(server.cluster.topologies)
    server.cluster.allow("agent", Right("get", RESOURCE))
    found = failure(kubeconfig)
    assert found.reason is Reason.FORBIDDEN
    assert "allow get and patch on noderesourcetopologies.topology.node.k8s.io" in str(found)


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("fault", "reason", "wait"),
    [
        (Fault.of(409, "Conflict", "the object has been modified"), Reason.OWNED, None),
        (Fault.of(429, "TooManyRequests", "slow down", Retry_After="7"), Reason.THROTTLED, 7.0),
        (Fault.of(429, "TooManyRequests", "slow down", Retry_After="never"), Reason.THROTTLED, None),
        (Fault.of(503, "ServiceUnavailable", "starting", Retry_After="9" * 40), Reason.SERVER, LONGEST_WAIT),
        (Fault.of(429, "x", "x", Retry_After="Fri, 31 Dec 2099 23:59:59 GMT"), Reason.THROTTLED, LONGEST_WAIT),
        (Fault.of(429, "x", "x", Retry_After="Sat, 01 Jan 2000 00:00:00 GMT"), Reason.THROTTLED, 0.0),
        (Fault.of(500, "InternalError", "etcdserver: request timed out"), Reason.SERVER, None),
        (Fault(502, b"<html>bad gateway</html>", {}), Reason.SERVER, None),
        (Fault(302, b"", {"Location": "https://elsewhere.example/"}), Reason.BROKEN, None),
        (Fault(413, b"", {}), Reason.INVALID, None),
        (Fault(404, b"404 page not found\n", {"Content-Type": "text/plain"}), Reason.NO_RESOURCE, None),
        (Fault(500, b'{"message": [', JSON), Reason.SERVER, None),
        (Fault(200, b'{"a', JSON), Reason.BROKEN, None),
        (Fault(200, b"[]", JSON), Reason.BROKEN, None),
        (Fault(200, b"{}", {}), Reason.BROKEN, None),
        (Fault(200, b"<html>log in</html>", {"Content-Type": "text/html"}), Reason.BROKEN, None),
        (Fault(200, b'{"metadata": {"annotations": {"a": 1}}}', JSON), Reason.BROKEN, None),
        (Fault(200, b'{"metadata": {}}', JSON, is_cut=True), Reason.BROKEN, None),
    ],
    ids=lambda value: f"{value.status} {bytes(value.body[:20])!r}" if isinstance(value, Fault) else None,
)
def test_an_answer_that_is_no_object_has_its_reason(
    server: Server, kubeconfig: Path, fault: Fault, reason: Reason, wait: float | None
) -> None:
    discover(server.cluster.topologies)
    server.cluster.faults.append(fault)
    found = failure(kubeconfig)
    assert found.reason is reason, found
    assert found.wait == wait
    assert len(str(found)) < 1000
    assert str(found).isprintable()


@pytest.mark.parametrize("code", [401, 422, 503])
def test_a_write_that_is_refused_leaves_the_object_as_it_was(server: Server, kubeconfig: Path, code: int) -> None:
    discover(server.cluster.topologies)
    before = stored(server)
    with asking(kubeconfig) as client:

        def describe(_: Mapping[str, str]) -> Wanted:
            server.cluster.faults.append(Fault.of(code, "Reason", "no"))
            return Wanted(OURS)

        with pytest.raises(ApiFailure):
            publish(client, "node1", describe)
    assert stored(server) == before


def test_an_answer_that_never_comes_ends_at_the_time_limit(server: Server, kubeconfig: Path) -> None:
    server.cluster.faults.append(Fault(is_silent=True))
    found = failure(kubeconfig, seconds=0.4)
    assert found.reason is Reason.TIMEOUT
    assert "no answer within 0.4 s" in str(found)


def test_a_server_that_is_gone_is_a_failure_of_the_connection(kubeconfig: Path) -> None:
    kubeconfig.write_text(kubeconfig.read_text().replace("https://127.0.0.1:", f"https://127.0.0.1:{closed_port()}/#"))
    assert failure(kubeconfig).reason is Reason.CONNECTION


def test_a_server_with_another_authority_is_not_trusted(server: Server, kubeconfig: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    text = kubeconfig.read_text().replace(str(server.authority), str(Authority(other).certificate))
    kubeconfig.write_text(text)
    found = failure(kubeconfig)
    assert found.reason is Reason.CONNECTION
    assert "is not trusted" in str(found)


@pytest.mark.parametrize(
    "name", ["", None, "../../api/v1/secrets", "a b", "x" * 254, "n\n1", "-a", "a..b", "ä", "a/b", "."]
)
def test_a_name_that_no_node_has_is_never_sent(name: str | None) -> None:
    with pytest.raises(ApiFailure) as caught:
        node_of(name)
    assert caught.value.reason is Reason.NODE_NAME
    assert str(caught.value).isprintable()


def test_a_nodes_name_is_lower_case_as_the_kubelet_makes_it() -> None:
    assert node_of("Worker-1.Example.COM\n") == "worker-1.example.com"
    assert node_of("x" * 63 + ".y") == "x" * 63 + ".y"
