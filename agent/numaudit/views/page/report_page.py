"""`numaudit report -o html`: one page that needs nothing else, neither files nor a network nor its own script."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files

from numaudit import __version__
from numaudit.report.values import KubeletReport, Report
from numaudit.views.page import drawing
from numaudit.views.page.containers import containers_section
from numaudit.views.page.headroom import headroom_section
from numaudit.views.page.machine import nodes_section
from numaudit.views.page.markup import Markup, element, raw
from numaudit.views.page.notes import findings_section, refused_section, state_section, unknown_section, when


def report_page(report: Report) -> str:
    """The whole page. A browser that obeys its policy runs our script and style alone, whatever a name may hold."""
    style, script = drawing.STYLE + _file("report.css"), _file("report.js")
    return (
        "<!doctype html>\n"
        + element(
            "html",
            element("head", _head(style, script)),
            element("body", _body(report), element("script", raw(script))),
            lang="en",
        )
        + "\n"
    )


def _head(style: str, script: str) -> Iterator[Markup]:
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    yield element("meta", charset="utf-8")
    yield element("meta", http_equiv="Content-Security-Policy", content=policy)
    yield element("meta", name="viewport", content="width=device-width, initial-scale=1")
    yield element("meta", name="referrer", content="no-referrer")
    yield element("meta", name="generator", content=f"numaudit {__version__}")
    yield element("title", "numaudit report")
    yield element("style", raw(style))


def _body(report: Report) -> Iterator[Markup | str]:
    yield element("a", "Skip to the containers", href="#containers", class_="skip")
    yield element(
        "header",
        element("h1", "numaudit report"),
        element("p", report.summary.text, class_="summary"),
        element("p", "Taken at ", _time(report.taken_at), _kubelet(report.kubelet), class_="facts"),
    )
    yield element(
        "main",
        findings_section(report),
        containers_section(report),
        nodes_section(report),
        headroom_section(report.memory_manager),
        refused_section(report),
        state_section(report.checkpoints),
        unknown_section(report),
    )


def _time(seconds: float) -> Markup:
    """For people, and in the form that HTML asks for."""
    return element("time", when(seconds), datetime=when(seconds).replace(" UTC", "Z"))


def _kubelet(kubelet: KubeletReport | None) -> str:
    if kubelet is None:
        return "; no kubelet on this host"
    policies = (
        ("Memory Manager", kubelet.memory_manager_policy),
        ("CPU Manager", kubelet.cpu_manager_policy),
        ("Topology Manager", kubelet.topology_manager_policy),
        ("scope", kubelet.topology_manager_scope),
    )
    named = ", ".join(f"{name} {value or 'not known'}" for name, value in policies)
    return f"; kubelet {kubelet.version or 'of unknown version'}: {named}"


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """How a policy names a text (CSP level 2)."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
