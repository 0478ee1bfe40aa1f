"""What the pages show as output of a command is what it prints of that captured host. `make golden` rewrites it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import pytest

from documentation import shown_outputs
from numaudit.cli.main import call
from screens.pages import TOP

MatchesGolden = Callable[[str, str], None]


@pytest.mark.parametrize("page", shown_outputs.pages_with_examples(), ids=lambda page: page.name)
def test_a_page_shows_what_its_commands_print(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, matches_golden: MatchesGolden, page: Path
) -> None:
    def printed(arguments: Sequence[str], stdin: TextIO | None) -> str:
        monkeypatch.setattr("sys.stdin", stdin)
        status = call(list(arguments))
        out, err = capsys.readouterr()
        assert (status, err) in ((0, ""), (1, "")), arguments
        return out

    text = page.read_text(encoding="utf-8")
    matches_golden(str(page.relative_to(TOP)), shown_outputs.filled(text, printed))


def test_an_example_names_its_command_its_filter_and_its_file() -> None:
    page = (
        "```yaml\n# pod.yaml\nkind: Pod\n```\n<!-- example: fit -f - --root a < pod.yaml | head -1 -->\n<!-- end -->\n"
    )
    seen = []

    def printed(arguments: Sequence[str], stdin: TextIO | None) -> str:
        seen.append((list(arguments), stdin.read() if stdin else None))
        return "one \ntwo\n"

    assert shown_outputs.filled(page, printed).endswith(
        " -->\n```\n$ numaudit fit -f - < pod.yaml | head -1\none\n```\n<!-- end -->\n"
    )
    assert seen == [(["fit", "-f", "-", "--root", "a"], "kind: Pod\n")]
