"""JUnit XML, which CI systems read: one test case for each check."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from numaudit.errors import printable
from numaudit.report.gates.gate import GateCheck

_ELEMENTS = {"failed": "failure", "inconclusive": "skipped"}


def encode(checks: Sequence[GateCheck], command_failed: str | None = None) -> bytes:
    """The document. `command_failed`: why nothing was judged; None = the checks were."""
    count = {state: sum(one.state == state for one in checks) for state in ("failed", "inconclusive")}
    suite = ElementTree.Element(
        "testsuite",
        name="numaudit assert",
        tests=str(len(checks) + (command_failed is not None)),
        failures=str(count["failed"]),
        errors=str(int(command_failed is not None)),
        skipped=str(count["inconclusive"]),
    )
    if command_failed is not None:
        case = ElementTree.SubElement(suite, "testcase", classname="numaudit", name="command")
        ElementTree.SubElement(case, "error", message=printable(command_failed))
    for one in checks:
        case = ElementTree.SubElement(suite, "testcase", classname=printable(one.container), name=printable(one.demand))
        if one.state in _ELEMENTS:
            ElementTree.SubElement(case, _ELEMENTS[one.state], message=printable(f"{one.state}: {one.evidence}"))
        ElementTree.SubElement(case, "system-out").text = printable(one.evidence)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    text: str = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()
