"""The Kubernetes API server: one client, and what is published there. Its library is imported for that alone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec

from msgspec import Struct, field

from numaudit.errors import InputError


def check_installed(what: str) -> None:
    """Raises InputError, which says that `what` needs the library."""
    if find_spec("lightkube") is None:
        raise InputError(f"{what} needs the Python package lightkube: pip install 'numaudit[publish]'")


class PublishCounts(Struct):
    """Outcomes of publishing the node's NodeResourceTopology. The thread that publishes writes them, others read."""

    writes: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """Reason -> rounds that failed."""
    last_success: float | None = None
    """Time when the object last had all that it should, in seconds since the epoch; None = not yet."""
    failing: str | None = None
    """Reason of the newest round's failure; None = it was none."""
    clock: Callable[[], float] = time.time

    def sentence(self) -> str:
        """For people who look at the agent's health."""
        if self.last_success is None:
            since = "not yet published"
        else:
            since = f"up to date {max(0.0, self.clock() - self.last_success):.0f} s ago"
        return f"NodeResourceTopology {since}{f', now failing: {self.failing}' if self.failing else ''}"
