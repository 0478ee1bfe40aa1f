"""The keys of `numaudit top`: what each does, in words and as the screen's action. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """Some keys that belong together."""

    label: str
    does: str
    actions: tuple[tuple[str, str], ...]
    """Textual's names of keys, and the action."""


KEYS = (
    Keys(
        "Up Down PgUp PgDn Home End",
        "choose a container; on a page: scroll, also Left and Right",
        (
            ("up", "move(-1)"),
            ("down", "move(1)"),
            ("pageup", "page(-1)"),
            ("pagedown", "page(1)"),
            ("home", "end(-1)"),
            ("end", "end(1)"),
        ),
    ),
    Keys(
        "Enter",
        "open it: promise, bytes, accesses, verdict, cost, what to do; Esc or Enter closes it",
        (("enter", "enter"), ("escape", "close")),
    ),
    Keys("/", "filter by words of name and verdict as you type; Enter keeps it, Esc clears it", (("slash", "filter"),)),
    Keys("s S", "the next and the previous order", (("s", "sort(1)"), ("S", "sort(-1)"))),
    Keys("r", "the other way round; what is not known stays last", (("r", "reverse"),)),
    Keys(
        "p Space",
        "pause: nothing is measured, unless a container is opened; again: go on with a tick at once",
        (("p,space", "pause"),),
    ),
    Keys("+ -", "measure less often, and more often", (("plus", "interval(1)"), ("minus", "interval(-1)"))),
    Keys("h ?", "this page", (("h,question_mark", "help"),)),
    Keys("q", "quit; Ctrl-C, too, with exit code 130", (("q", "leave(False)"), ("ctrl+c", "leave(True)"))),
    Keys("Ctrl-Z", "back to the shell; fg goes on", (("ctrl+z", "suspend_process"),)),
)
NOT_WHILE_TYPING = ("enter", "sort", "reverse", "filter", "pause", "interval", "help", "page", "end")
"""Actions whose keys are a filter's, while one is typed; so is the one that quits."""
NOT_ON_A_PAGE = ("move", "page", "end", "sort", "reverse", "filter")
"""Actions whose keys scroll a page, or do nothing there."""
