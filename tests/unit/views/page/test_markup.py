"""Text becomes markup in one place, and nothing gets past it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from hosts.hostile_names import HOSTILE
from numaudit.views.page.markup import element, join, short


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text_and_nothing_else(name: str) -> None:
    parsed = ElementTree.fromstring(element("p", name, title=name))
    assert list(parsed) == []
    assert set(parsed.attrib) == {"title"}
    assert parsed.text == parsed.get("title")
    assert parsed.text is not None
    assert parsed.text.isprintable()


def test_what_is_printable_comes_out_as_it_went_in() -> None:
    assert ElementTree.fromstring(element("p", "a < b & 'c' \"d\" é 名")).text == "a < b & 'c' \"d\" é 名"


def test_elements_nest_without_escaping_each_other_twice() -> None:
    assert element("p", element("b", "<"), " & ", [element("i"), "x"]) == "<p><b>&lt;</b> &amp; <i></i>x</p>"
    assert join(("<", element("br"))) == "&lt;<br>"


def test_attributes_without_a_value_and_numbers_are_plain() -> None:
    assert element("input", hidden=True, aria_label=None, class_="x") == '<input hidden class="x">'
    assert element("rect", x=0, y=1.5, width=1 / 3, height=2.0) == '<rect x="0" y="1.5" width="0.33" height="2"/>'


def test_a_long_name_keeps_its_two_ends() -> None:
    name = "begin" + "x" * 4096 + "end"
    assert short(name).startswith("begin")
    assert short(name).endswith("end")
    assert len(short(name)) == 120
    assert short("plain") == "plain"
