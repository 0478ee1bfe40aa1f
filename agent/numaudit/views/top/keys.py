"""The keys of `numaudit top`: what each does, in words and as the screen's action. Pure."""

from __future__ import annotations

from msgspec import Struct


class Keys(Struct, frozen=True):
    """Some keys that belong together."""

    label: str
    does: str
    actions: tuple[tuple[str, str], ...] = ()
    """Textual's names of keys, and the action; none for the mouse."""


KEYS = (
    Keys(
        "j k Down Up",
        "move, or scroll a page",
        (("down", "move(1)"), ("up", "move(-1)"), ("j", "step(1)"), ("k", "step(-1)")),
    ),
    Keys("PgDn PgUp", "a screen on, or back", (("pagedown", "page(1)"), ("pageup", "page(-1)"))),
    Keys("g G Home End", "to the first, the last", (("home,g", "end(-1)"), ("end,G", "end(1)"))),
    Keys("Enter", "open the container", (("enter", "enter"),)),
    Keys("Esc", "back; clear the filter", (("escape", "close"),)),
    Keys("/", "filter names, verdicts", (("slash", "filter"),)),
    Keys("s S", "next, previous order", (("s", "sort(1)"), ("S", "sort(-1)"))),
    Keys("r", "reverse the order", (("r", "reverse"),)),
    Keys("a", "show, fold small groups", (("a", "fold"),)),
    Keys("p Space", "pause; go on with a tick", (("p,space", "pause"),)),
    Keys("+ -", "measure less, more often", (("plus", "interval(1)"), ("minus", "interval(-1)"))),
    Keys("? h", "this help", (("h,question_mark", "help"),)),
    Keys("q", "back from a page, quit", (("q", "quit_or_back"),)),
    Keys("Ctrl-C", "quit with exit code 130", (("ctrl+c", "leave(True)"),)),
    Keys("Ctrl-Z", "to the shell; fg returns", (("ctrl+z", "suspend_process"),)),
    Keys("click", "choose; twice: open"),
    Keys("click title", "sort by it; reverse"),
)
NOT_WHILE_TYPING = (
    "step", "page", "end", "enter", "filter", "sort", "reverse", "fold", "pause", "interval", "help", "quit_or_back",
)  # fmt: skip
"""Actions whose keys are a filter's, while one is typed. Of those that move, only the arrows still do."""
NOT_ON_A_PAGE = ("sort", "reverse", "filter", "fold")
"""Actions whose keys do nothing on a page."""
OF_A_PAGE = (("Esc q", "back"), ("j k g G PgUp PgDn", "scroll"), ("?", "help"), ("Ctrl-C", "quit"))
"""Those that the last line of a page names."""
