"""What each path answers."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import time
from http import HTTPStatus
from pathlib import Path

import bcrypt
import pytest

from made_up.reports import LIVE, STARTED, container, exposition, report
from numaudit.daemon.web.auth import ATTEMPTS, AccessRules
from numaudit.daemon.web.pages import LINKS, AgentSite, Health, Request, Response
from numaudit.daemon.web.tick_document import TickDocuments
from numaudit.encoding.value import Origin, Timestamp
from numaudit.exporters.exposition import evaluate_live
from numaudit.exporters.prometheus import MetricPages
from screens.page_text import lines, parse

GOOD, BAD = Health(True, "ok"), Health(False, "the newest tick began 99 s ago")


def _tick(seconds_ago: float = 3.0) -> TickDocuments:
    of = report(container())
    origin = Origin(None, Timestamp(of.taken_at))
    return TickDocuments.of(of, time.monotonic() - seconds_ago, 15.0, LINKS, origin)


def _site(access: AccessRules | None = None, with_tick: bool = True, health: Health = GOOD) -> AgentSite:
    pages = MetricPages(lambda: evaluate_live(LIVE, STARTED))
    if with_tick:
        pages.publish(exposition(report(container())))
    tick = _tick() if with_tick else None
    return AgentSite(
        pages,
        lambda: tick,
        lambda: health.good,
        lambda: health,
        lambda: Health(with_tick, "ready"),
        access or AccessRules(),
    )


def _get(site: AgentSite, path: str, **headers: str) -> Response:
    return site.answer(Request(path, {name.replace("_", "-"): value for name, value in headers.items()}))


def test_metrics_come_packed_when_asked_for() -> None:
    response = _get(_site(), "/metrics", accept_encoding="gzip")
    assert response.status == HTTPStatus.OK
    assert ("Content-Encoding", "gzip") in response.headers
    assert b"numaudit_container_judged_bytes" in gzip.decompress(b"".join(response.body))


def test_the_report_comes_as_json_packed_or_not() -> None:
    site = _site()
    (plain,) = _get(site, "/report.json").body
    assert json.loads(plain)["kind"] == "Report"
    assert gzip.decompress(*_get(site, "/report.json", accept_encoding="gzip").body) == plain


@pytest.mark.parametrize("path", ["/", "/metrics", "/report.json", "/-/ready"])
def test_before_the_first_tick_there_is_nothing_to_see(path: str) -> None:
    assert _get(_site(with_tick=False), path).status == HTTPStatus.SERVICE_UNAVAILABLE


def _post(site: AgentSite, path: str, **headers: str) -> Response:
    return site.answer(Request(path, headers, "POST"))


def test_pages_take_no_post() -> None:
    answer = _post(_site(), "/metrics")
    assert (answer.status, dict(answer.headers)["Allow"]) == (HTTPStatus.METHOD_NOT_ALLOWED, "GET, HEAD")


@pytest.mark.parametrize("path", ["/-/healthy", "/healthz"])
def test_a_stuck_agent_is_not_healthy_and_says_why(path: str) -> None:
    response = _get(_site(health=BAD), path)
    assert (response.status, response.body) == (
        HTTPStatus.SERVICE_UNAVAILABLE,
        (b"the newest tick began 99 s ago\n",),
    )


# The page


def _body(response: Response) -> str:
    return b"".join(response.body).decode()


@pytest.mark.parametrize("site", [_site(), _site(with_tick=False), _site(health=BAD)])
def test_the_page_leads_to_every_other_one_also_below_another_path(site: AgentSite) -> None:
    found = {one.attrib["href"] for one in parse(_body(_get(site, "/"))).iter("a")}
    assert {one for one in found if not one.startswith(("#", "?container="))} == {
        "./metrics",
        "./report.json",
        "./-/healthy",
        "./-/ready",
    }


def _container(site: AgentSite, query: str) -> Response:
    return site.answer(Request("/", {}, query=query))


def test_each_container_has_a_page_of_its_own_that_is_about_it_alone() -> None:
    site = _site()
    (link,) = {
        one.attrib["href"] for one in parse(_body(_get(site, "/"))).iter("a") if "container=" in one.attrib["href"]
    }
    response = _container(site, link.removeprefix("?"))
    said = list(lines(_body(response)))
    assert (response.status, "h2: prod/db-0/db" in said) == (HTTPStatus.OK, True)
    assert not [line for line in said if line.startswith("h2: Nodes")]
    assert dict(response.headers)["ETag"] == dict(_get(site, "/").headers)["ETag"]
    assert "Content-Security-Policy" in dict(response.headers)


@pytest.mark.parametrize("query", ["container=8", "container=", "container=%3Cscript%3E", "a=b&container=" + "9" * 300])
def test_a_container_that_the_newest_report_does_not_have_is_not_found(query: str) -> None:
    assert _container(_site(), query).status == HTTPStatus.NOT_FOUND


def test_a_query_about_something_else_leads_to_the_page() -> None:
    whole = _body(_get(_site(), "/"))
    assert len(_body(_container(_site(), "name=db&sort=-Judged"))) == len(whole)


def test_the_page_of_a_container_says_when_it_is_stale() -> None:
    response = _container(_site(health=BAD), "container=7")
    assert response.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert "the figures are stale" in _body(response)


def test_the_page_is_the_report_packed_or_not() -> None:
    site = _site()
    page = _get(site, "/")
    assert (page.status, page.content_type) == (HTTPStatus.OK, "text/html; charset=utf-8")
    assert f"p: {report(container()).summary.text}" in lines(_body(page))
    packed = _get(site, "/", accept_encoding="gzip")
    assert ("Content-Encoding", "gzip") in packed.headers
    assert gzip.decompress(*packed.body) == page.body[0]


@pytest.mark.parametrize("site", [_site(), _site(with_tick=False), _site(health=BAD)])
def test_the_policy_lets_the_scripts_and_styles_of_the_page_run_and_nothing_else(site: AgentSite) -> None:
    answer = _get(site, "/")
    headers = dict(answer.headers)
    policy = dict(rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";"))
    for tag in ("style", "script"):
        (text,) = ["".join(one.itertext()) for one in parse(_body(answer)).iter(tag)]
        hashed = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy.pop(f"{tag}-src") == f"'sha256-{hashed}'"
    assert policy == {
        "default-src": "'none'", "connect-src": "'self'", "base-uri": "'none'", "form-action": "'none'",
        "frame-ancestors": "'none'", "require-trusted-types-for": "'script'", "trusted-types": "'none'",
    }  # fmt: skip
    assert headers["Referrer-Policy"] == "no-referrer"


def test_the_page_needs_the_password_that_other_pages_need(access: AccessRules) -> None:
    site = _site(access)
    refused = _get(site, "/")
    assert refused.status == HTTPStatus.UNAUTHORIZED
    assert "prod" not in _body(refused)
    assert _get(site, "/", authorization=_authorization("ali", "open sesame")).status == HTTPStatus.OK
    known = _get(site, "/report.json", authorization=_authorization("ali", "open sesame"))
    again = _get(site, "/report.json", if_none_match=dict(known.headers)["ETag"])
    assert again.status == HTTPStatus.UNAUTHORIZED


# Who has a tick already


@pytest.mark.parametrize("path", ["/", "/report.json"])
@pytest.mark.parametrize("form", ["{}", '"other", {}', "*", "{}, *"])
def test_who_has_the_tick_already_gets_no_body(path: str, form: str) -> None:
    site = _site()
    first = dict(_get(site, path).headers)
    assert first["Cache-Control"] == "no-cache"
    again = _get(site, path, if_none_match=form.format(first["ETag"]), accept_encoding="gzip")
    assert (again.status, again.size) == (HTTPStatus.NOT_MODIFIED, 0)
    assert (dict(again.headers)["ETag"], dict(again.headers)["Vary"]) == (first["ETag"], first["Vary"])


def test_a_newer_tick_comes_whole() -> None:
    ticks = [_tick(), _tick()]
    site = _site()
    site.newest = lambda: ticks[0]
    known = dict(_get(site, "/report.json").headers)["ETag"]
    ticks.pop(0)
    assert _get(site, "/report.json", if_none_match=known).status == HTTPStatus.OK


def test_the_page_says_of_which_tick_it_is() -> None:
    answer = _get(_site(), "/")
    (bar,) = [one for one in parse(_body(answer)).iter("section") if one.get("id") == "live"]
    assert bar.get("data-tag") == dict(answer.headers)["ETag"]


@pytest.mark.parametrize("headers", [{}, {"if_none_match": "*"}])
def test_an_answer_says_how_old_its_tick_is_and_how_often_there_is_one(headers: dict[str, str]) -> None:
    site = _site()
    site.newest = lambda: _tick(seconds_ago=1000)
    found = dict(_get(site, "/report.json", **headers).headers)
    assert float(found["Numaudit-Age"]) >= 1000
    assert found["Numaudit-Interval"] == "15"


# Stale


def test_a_stale_report_is_refused_to_programs_and_marked_for_people() -> None:
    site = _site(health=BAD)
    known = dict(_get(_site(), "/report.json").headers)["ETag"]
    for path in ("/report.json", "/"):
        assert _get(site, path, if_none_match=known).status == HTTPStatus.SERVICE_UNAVAILABLE
        assert _get(site, path, if_none_match="*").status == HTTPStatus.SERVICE_UNAVAILABLE
    page = _get(site, "/")
    assert "ETag" not in dict(page.headers)
    assert f"p: {report(container()).summary.text}" in lines(_body(page))
    (marked,) = [one for one in parse(_body(page)).iter() if one.get("role") == "status"]
    assert marked.text == "The agent's newest ticks failed or are late: the figures are stale."
    assert float(dict(_get(site, "/report.json").headers)["Numaudit-Age"]) >= 3


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
def access(tmp_path_factory: pytest.TempPathFactory) -> AccessRules:
    hashed = bcrypt.hashpw(b"open sesame", bcrypt.gensalt(4)).decode().replace("$2b$", "$2y$")
    path: Path = tmp_path_factory.mktemp("web") / "web.yaml"
    path.write_text(f"basic_auth_users:\n  ali: {hashed}\n")
    return AccessRules.by(path)


def test_the_right_password_opens_and_is_remembered(access: AccessRules) -> None:
    for _ in range(2):
        assert _get(_site(access), "/metrics", authorization=_authorization("ali", "open sesame")).status == 200


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Basic",
        "Basic !!!",
        "Basic \x80",
        "Basic \udc80",
        "Basic " + base64.b64encode(b"\xff:x").decode(),
        "Basic " + base64.b64encode(b"ali").decode(),
        _authorization("ali", "close sesame"),
        _authorization("baba", "open sesame"),
        _authorization("ali", "x" * 200),
        "Bearer " + base64.b64encode(b"ali:open sesame").decode(),
    ],
)
def test_anything_else_is_refused_with_a_challenge(access: AccessRules, authorization: str) -> None:
    response = _get(_site(access), "/metrics", authorization=authorization)
    assert response.status == HTTPStatus.UNAUTHORIZED
    assert ("WWW-Authenticate", 'Basic realm="numaudit"') in response.headers


def test_health_asks_for_no_password(access: AccessRules) -> None:
    assert _get(_site(access), "/-/healthy").status == HTTPStatus.OK


def test_too_many_wrong_passwords_are_answered_with_when_to_come_again(access: AccessRules) -> None:
    site = _site(access)

    def guess(password: str) -> Response:
        headers = {"authorization": _authorization("ali", password)}
        return site.answer(Request("/metrics", headers, client="192.0.2.9"))

    assert [guess(f"guess {number}").status for number in range(ATTEMPTS)] == [HTTPStatus.UNAUTHORIZED] * ATTEMPTS
    response = guess("one more")
    assert response.status == HTTPStatus.TOO_MANY_REQUESTS
    assert dict(response.headers)["Retry-After"] == "6"
