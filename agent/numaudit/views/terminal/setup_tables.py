"""The results of `numaudit setup` in a terminal: what does not hold, and then how many rules do."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from numaudit.errors import printable
from numaudit.evaluation.setup import AREAS, STATES, SetupResult, SetupState
from numaudit.evaluation.setup.rule import Setup
from numaudit.views.terminal.terminal import print_note

_STYLE: dict[SetupState, str] = {
    "error": "red",
    "warning": "yellow",
    "info": "cyan",
    "accepted": "green",
    "not-judged": "dim",
    "pass": "green",
}
_ASIDE: tuple[SetupState, ...] = ("not-judged", "pass")
_MOST_MESSAGES = 3
"""Places of one rule that are listed; JSON has all."""
_LABEL = 12
_INDENT = " " * _LABEL
_NARROWEST = 30
_HELD = "\N{NO-BREAK SPACE}"
_COMMAND = re.compile(r"`([^`]+)`")


def print_setup(found: Setup, out: Console, *, everything: bool = False) -> None:
    """A group for each part of the node, the worst rules first; at the end one line of counts."""
    for area in AREAS:
        rules = [one for one in found.rules if one.area == area and (everything or one.state not in _ASIDE)]
        if rules:
            out.print(Text(area, "bold"))
            for one in sorted(rules, key=lambda rule: STATES.index(rule.state)):
                _print_rule(one, out)
            out.print()
    print_note(found.in_words, out, "bold")
    if not everything and any(one.state in _ASIDE for one in found.rules):
        for text in _reasons(found.rules):
            print_note(f"  {text}", out)


def _print_rule(one: SetupResult, out: Console) -> None:
    label = "not judged" if one.state == "not-judged" else one.state
    head = Text.assemble((f"{label:<{_LABEL}}", _STYLE[one.state]), (one.id, "bold"))
    first, *more = one.messages[:_MOST_MESSAGES] or ("",)
    if first and len(head) + 2 + len(first) <= out.width:
        head.append(f"  {printable(first)}")
    else:
        more = [first, *more] if first else more
    out.print(head, soft_wrap=True)
    left = len(one.messages) - _MOST_MESSAGES
    for message in (*more, *([f"and {left} more; -o json lists them"] if left > 0 else ())):
        _print_indented(message, out)
    if one.state in _ASIDE:
        return
    if one.accepted is not None:
        _print_indented(f"accepted: {one.accepted}", out, "dim")
        return
    _print_indented(one.why, out)
    if one.remedy is not None:
        _print_indented(f"-> {one.remedy}", out, "dim")


def _print_indented(text: str, out: Console, style: str = "") -> None:
    """A command in it stays on one line, so that it can be copied."""
    held = _COMMAND.sub(lambda command: command[1].replace(" ", _HELD), printable(text))
    width = max(out.width - _LABEL, _NARROWEST)
    further = "   " if text.startswith("-> ") else ""
    for line in _wrapped(held, width, further):
        out.print(Text(_INDENT + line.replace(_HELD, " "), style), soft_wrap=True)


def _wrapped(text: str, width: int, further: str) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=further, break_long_words=False, break_on_hyphens=False)


def _reasons(rules: Sequence[SetupResult]) -> Iterator[str]:
    """Why rules were not judged, the commonest reason first."""
    reasons = Counter(one.messages[0] for one in rules if one.state == "not-judged")
    for reason, count in reasons.most_common(_MOST_MESSAGES):
        yield f"{count} not judged: {printable(reason)}"
    if len(reasons) > _MOST_MESSAGES:
        left = sum(count for _, count in reasons.most_common()[_MOST_MESSAGES:])
        yield f"{left} not judged for other reasons: --all lists them"
