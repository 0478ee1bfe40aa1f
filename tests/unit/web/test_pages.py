"""What each path answers."""

from __future__ import annotations

import base64
import gzip
from http import HTTPStatus
from pathlib import Path

import bcrypt
import pytest

from numaudit.errors import InputError
from numaudit.exporters.exposition import evaluate_live
from numaudit.exporters.prometheus import Pages
from numaudit.web.auth import Access
from numaudit.web.budget import TRIES
from numaudit.web.pages import AgentSite, Health, Request, Response
from numaudit.web.tick_document import Document
from reports import LIVE, STARTED, container, exposition, report

GOOD, BAD = Health(True, "ok"), Health(False, "the newest tick began 99 s ago")


def _site(access: Access | None = None, with_tick: bool = True, health: Health = GOOD) -> AgentSite:
    pages = Pages(lambda: evaluate_live(LIVE, STARTED))
    if with_tick:
        pages.publish(exposition(report(container())))
    document = Document(lambda: b'{"kind": "Report"}\n') if with_tick else None
    return AgentSite(pages, lambda: document, lambda: health, lambda: Health(with_tick, "ready"), access or Access())


def _get(site: AgentSite, path: str, **headers: str) -> Response:
    return site.answer(Request(path, {name.replace("_", "-"): value for name, value in headers.items()}))


def test_metrics_come_packed_when_asked_for() -> None:
    response = _get(_site(), "/metrics", accept_encoding="gzip")
    assert response.status == HTTPStatus.OK
    assert ("Content-Encoding", "gzip") in response.headers
    assert b"numaudit_container_judged_bytes" in gzip.decompress(b"".join(response.body))


def test_the_report_comes_as_json_packed_or_not() -> None:
    assert _get(_site(), "/report.json").body == (b'{"kind": "Report"}\n',)
    assert gzip.decompress(*_get(_site(), "/report.json", accept_encoding="gzip").body) == b'{"kind": "Report"}\n'


@pytest.mark.parametrize("path", ["/metrics", "/report.json", "/-/ready"])
def test_before_the_first_tick_there_is_nothing_to_see(path: str) -> None:
    assert _get(_site(with_tick=False), path).status == HTTPStatus.SERVICE_UNAVAILABLE


def _post(site: AgentSite, path: str, **headers: str) -> Response:
    return site.answer(Request(path, headers, "POST"))


def test_the_settings_are_read_again_by_post_where_that_is_switched_on() -> None:
    site, reloads = _site(), list[int]()
    site.reload = lambda: reloads.append(1)
    refused = _post(site, "/-/reload")
    assert (refused.status, reloads) == (HTTPStatus.FORBIDDEN, [])
    assert b"web.reload" in b"".join(refused.body)
    site.may_reload = lambda: True
    assert _get(site, "/-/reload").status == HTTPStatus.METHOD_NOT_ALLOWED
    assert reloads == []
    assert _post(site, "/-/reload").status == HTTPStatus.OK
    assert reloads == [1]


def test_wrong_settings_are_the_answer_to_a_reload() -> None:
    def fail() -> None:
        raise InputError("agent.yaml:1: interval must be\x1b a duration")

    site = _site()
    site.may_reload, site.reload = lambda: True, fail
    answer = _post(site, "/-/reload")
    assert answer.status == HTTPStatus.INTERNAL_SERVER_ERROR
    assert b"".join(answer.body) == b"agent.yaml:1: interval must be\\x1b a duration\n"


def test_a_reload_needs_the_password_that_other_pages_need(tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(f"basic_auth_users:\n  me: {bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    site = _site(Access.by(path))
    site.may_reload = lambda: True
    assert _post(site, "/-/reload").status == HTTPStatus.UNAUTHORIZED
    token = base64.b64encode(b"me:secret").decode()
    assert _post(site, "/-/reload", authorization=f"Basic {token}").status == HTTPStatus.OK


def test_other_pages_take_no_post() -> None:
    answer = _post(_site(), "/metrics")
    assert (answer.status, dict(answer.headers)["Allow"]) == (HTTPStatus.METHOD_NOT_ALLOWED, "GET, HEAD")


def test_a_stuck_agent_is_not_healthy_and_says_why() -> None:
    response = _get(_site(health=BAD), "/-/healthy")
    assert (response.status, response.body) == (
        HTTPStatus.SERVICE_UNAVAILABLE,
        (b"the newest tick began 99 s ago\n",),
    )


def test_the_index_names_every_page() -> None:
    body = b"".join(_get(_site(), "/").body).decode()
    assert all(f'href="{path}"' in body for path in ("/metrics", "/report.json", "/-/healthy", "/-/ready"))


@pytest.mark.parametrize("path", ["/metrics/", "/METRICS", "/favicon.ico", "//metrics", "/..", ""])
def test_an_unknown_path_is_not_found_and_counted_under_one_name(path: str) -> None:
    site = _site()
    assert _get(site, path).status == HTTPStatus.NOT_FOUND
    site.count(path, HTTPStatus.NOT_FOUND)
    assert dict(site.requests) == {("other", "404"): 1}


@pytest.mark.parametrize("method", ["POST", "DELETE", "CONNECT", "BREW"])
def test_a_page_names_the_methods_that_it_takes(method: str) -> None:
    response = _site().answer(Request("/metrics", {}, method))
    assert response.status == HTTPStatus.METHOD_NOT_ALLOWED
    assert ("Allow", "GET, HEAD") in response.headers


def _authorization(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Access:
    hashed = bcrypt.hashpw(b"open sesame", bcrypt.gensalt(4)).decode().replace("$2b$", "$2y$")
    path: Path = tmp_path_factory.mktemp("web") / "web.yaml"
    path.write_text(f"basic_auth_users:\n  ali: {hashed}\n")
    return Access.by(path)


def test_the_right_password_opens_and_is_remembered(access: Access) -> None:
    for _ in range(2):
        assert _get(_site(access), "/metrics", authorization=_authorization("ali", "open sesame")).status == 200


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"\xff:x").decode(),
        "Basic " + base64.b64encode(b"ali").decode(),
        _authorization("ali", "close sesame"),
        _authorization("baba", "open sesame"),
        _authorization("ali", "x" * 200),
        "Bearer " + base64.b64encode(b"ali:open sesame").decode(),
    ],
)
def test_anything_else_is_refused_with_a_challenge(access: Access, authorization: str) -> None:
    response = _get(_site(access), "/metrics", authorization=authorization)
    assert response.status == HTTPStatus.UNAUTHORIZED
    assert ("WWW-Authenticate", 'Basic realm="numaudit"') in response.headers


def test_health_asks_for_no_password(access: Access) -> None:
    assert _get(_site(access), "/-/healthy").status == HTTPStatus.OK


def test_too_many_wrong_passwords_are_answered_with_when_to_come_again(access: Access) -> None:
    site = _site(access)

    def guess(password: str) -> Response:
        headers = {"authorization": _authorization("ali", password)}
        return site.answer(Request("/metrics", headers, client="192.0.2.9"))

    assert [guess(f"guess {number}").status for number in range(TRIES)] == [HTTPStatus.UNAUTHORIZED] * TRIES
    response = guess("one more")
    assert response.status == HTTPStatus.TOO_MANY_REQUESTS
    assert dict(response.headers)["Retry-After"] == "6"
