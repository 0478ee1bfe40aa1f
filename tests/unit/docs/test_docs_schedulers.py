"""docs/integrations/schedulers.md: its example prints what the page says, and its table has every annotation."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from numaudit.nrt.annotations import KEYS, MOST_BYTES, PREFIX
from screens.pages import TOP

PAGE = (TOP / "docs/integrations/schedulers.md").read_text(encoding="utf-8")


def test_the_cases_of_kai_scheduler_come_out_as_the_page_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (output,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    with_the_filter = {**os.environ, "PYTHONPATH": str(TOP / "tests/support")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=with_the_filter
    )
    assert done.stderr == ""
    assert done.stdout == output


def test_the_table_has_every_annotation() -> None:
    listed = re.findall(rf"^\| `({re.escape(PREFIX)}[\w-]+)` \|", PAGE, re.MULTILINE)
    assert sorted(listed) == sorted(KEYS)
    assert f"at most {MOST_BYTES >> 10} KiB" in PAGE
