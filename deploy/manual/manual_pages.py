"""Makes the manual pages in share/man: `python3 deploy/manual/manual_pages.py`, and so does each build of a package.

They are the tree of click's commands: a page for each.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path

import click

from command_tree import commands, described_options, examples, exit_codes, usage
from numaudit.cli.cluster.plugin import plugin
from numaudit.cli.cluster.verbs import EXAMPLES, OPTIONS, command_of
from numaudit.cli.main import VERBS

PAGES = {"-".join(("numaudit", *path)): (path, command) for path, command in commands()}
PLUGIN = "kubectl-numaudit"
_EXIT_CODES = (
    "0 fine, 1 findings, 2 usage or one of your limits (ulimit), 3 this host cannot answer, 4 internal error, "
    "5 inconclusive, 130 interrupted."
)


def page(name: str) -> str:
    """A manual page in man(7)'s macros."""
    path, command = PAGES[name]
    text = inspect.cleandoc(command.help or "")
    parts = [
        f'.TH {name.upper().replace("-", chr(92) + "-")} 1 "" "numaudit" "User Commands"\n',
        f".SH NAME\n{_plain(name)} \\- {_plain(_short(path, command))}\n",
        f".SH SYNOPSIS\n.B {_plain(' '.join(('numaudit', *path)))}\n",
        f"{_plain(usage(path, command).removeprefix(' '.join(('numaudit', *path))).strip())}\n",
        ".SH DESCRIPTION\n" + ".PP\n".join(_paragraphs(text)),
    ]
    parts += [_list("OPTIONS", described_options(path, command))]
    parts += [_list("VERBS", [(one, _short((*path, one), PAGES[f"{name}-{one}"][1])) for one in _below(name)])]
    shown = "".join(f"{_plain(line)}\n" for line in examples(command))
    parts += [f".SH EXAMPLES\n.EX\n{shown}.EE\n"] if shown else []
    parts += [".SH EXIT STATUS\n" + _plain(exit_codes(command) or _EXIT_CODES) + "\n"]
    others = [f".BR {_plain(one)} (1)" for one in _related(name)]
    parts += [".SH SEE ALSO\n" + ",\n".join(others) + "\n"]
    return "".join(parts)


def _short(path: tuple[str, ...], command: click.Command) -> str:
    """What a verb answers, without the full stop."""
    text = VERBS[path[0]].help if len(path) == 1 else inspect.cleandoc(command.help or "").split("\n\n")[0]
    return " ".join(text.split()).rstrip(".")


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield _plain(" ".join(paragraph.split())) + "\n"


def _list(title: str, rows: list[tuple[str, str]]) -> str:
    items = "".join(f".TP\n.B {_plain(term)}\n{_plain(' '.join(what.split()))}\n" for term, what in rows)
    return f".SH {title}\n{items}" if items else ""


def _plain(text: str) -> str:
    """Text that roff shows as it is: a backslash, a minus that can be copied, and no request at a line's beginning."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("~", "\\(ti").replace("^", "\\(ha")
    return f"\\&{text}" if text.startswith(".") else text


def _below(name: str) -> list[str]:
    path = PAGES[name][0]
    return [other[-1] for other, _ in PAGES.values() if other and other[:-1] == path]


def _related(name: str) -> list[str]:
    """The page above, and those below."""
    above = [] if name == "numaudit" else [name.rpartition("-")[0]]
    return above + [f"{name}-{one}" for one in _below(name)] or ["numaudit"]


def plugin_page() -> str:
    """The one page of `kubectl numaudit`: its own options, and its verbs with their examples."""
    context = click.Context(plugin)
    own = [record for one in OPTIONS if (record := one.get_help_record(context)) is not None]
    verbs = [(" ".join(verb), command_of(verb).help or "") for verb in EXAMPLES]
    shown = "".join(f"{_plain(f'kubectl numaudit {one}')}\n" for examples_ in EXAMPLES.values() for one in examples_)
    parts = [
        f'.TH {PLUGIN.upper().replace("-", chr(92) + "-")} 1 "" "numaudit" "User Commands"\n',
        f".SH NAME\n{_plain(PLUGIN)} \\- ask numaudit's agents from anywhere\n",
        f".SH SYNOPSIS\n.B kubectl numaudit\n{_plain('VERB [OPTIONS] [POD[/CONTAINER]|node/NODE]')}\n",
        ".SH DESCRIPTION\n" + ".PP\n".join(_paragraphs(inspect.cleandoc(plugin.help or ""))),
        _list("VERBS", verbs),
        ".PP\nOther options of a verb are those of the verb itself, which its own page explains.\n",
        _list("OPTIONS", own),
        f".SH EXAMPLES\n.EX\n{shown}.EE\n",
        ".SH EXIT STATUS\n" + _plain(exit_codes(plugin) or "") + "\n",
        ".SH SEE ALSO\n" + ",\n".join(f".BR {_plain(one)} (1)" for one in ("numaudit", "numaudit-agent")) + "\n",
    ]
    return "".join(parts)


def write(folder: Path) -> None:
    """The pages as files, in the place of those that were there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in {PLUGIN: plugin_page(), **{one: page(one) for one in PAGES}}.items():
        (folder / f"{name}.1").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).resolve().parents[2] / "share/man/man1")
