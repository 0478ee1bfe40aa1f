"""Loads the agent's probes beside its ticks, and later those again that may have been refused for a time only."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from numaudit.daemon.logs import Changes
from numaudit.daemon.service import Inbox
from numaudit.errors import NumauditError
from numaudit.probes.probe import Probe, ProbeKind, Reading
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import Session

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 1800.0
"""Seconds between two attempts: 1, 2, 4, 8, 16, then 30 minutes."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Loading:
    """A service: a thread loads; what came of it is taken over between two ticks, by the main thread."""

    name: ClassVar[str] = "probes"
    kinds: Collection[ProbeKind[Any]]
    loader: Callable[[Collection[ProbeKind[Any]]], Callable[[], Session]]
    """Gives what loads probes of these kinds, in any thread. Called in the main thread."""
    inbox: Inbox
    session: Session = field(init=False)
    """Grows as probes come."""
    busy: bool = False
    """A thread loads at this moment."""
    _due: float | None = None
    """Time to try again, by the monotonic clock; None = never."""
    _pause: float = field(default_factory=lambda: FIRST_PAUSE)
    _changes: Changes = field(default_factory=Changes)

    def __post_init__(self) -> None:
        self.session = Session.refused(self.kinds, ProbeRefusal(Reason.LOADING, "it is being loaded"))

    def start(self) -> None:
        """Load all that waits."""
        waiting = [kind for kind in self.kinds if self._waits(self.session.probe(kind))]
        self._due = None
        if waiting:
            self.busy = True
            load = self.loader(waiting)
            threading.Thread(target=self._load, args=(waiting, load), name="loading", daemon=True).start()

    def stop(self, seconds: float) -> None:
        """Unload all probes. What is still being loaded ends with this process."""
        self.session.close()

    def has_died(self) -> bool:
        """Always False: an error in its thread becomes the reason why a probe does not run."""
        return False

    def start_when_due(self, now: float) -> None:
        """Try again what may load by now."""
        if self._due is None and not self.busy and any(map(self._waits, self.session.probes.values())):
            self._due = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        elif self._due is not None and now >= self._due:
            self.start()

    @staticmethod
    def _waits(probe: Probe[Reading] | ProbeRefusal) -> bool:
        return isinstance(probe, ProbeRefusal) and (probe.reason is Reason.LOADING or probe.reason.may_pass)

    def _load(self, kinds: Collection[ProbeKind[Any]], load: Callable[[], Session]) -> None:
        try:
            loaded = load()
        except (NumauditError, OSError) as error:
            loaded = Session.refused(kinds, ProbeRefusal(Reason.LOADER_DIED, str(error)))
        except Exception as error:
            _log.exception("internal error while probes were loaded")
            loaded = Session.refused(kinds, ProbeRefusal(Reason.LOADER_DIED, f"internal error: {error!r}"))
        self.inbox.put(partial(self._take_over, loaded))

    def _take_over(self, loaded: Session) -> None:
        self.busy = False
        self.session.take_over(loaded)
        self._report(loaded.probes)

    def _report(self, loaded: Mapping[str, Probe[Reading] | ProbeRefusal]) -> None:
        runs = [name for name, probe in loaded.items() if not isinstance(probe, ProbeRefusal)]
        if runs:
            _log.info("probes run: %s", ", ".join(runs))
        refused: dict[str, list[str]] = {}
        for name, probe in loaded.items():
            if isinstance(probe, ProbeRefusal) and self._changes.is_news(name, probe.reason, usual=None):
                later = "; this is tried again, less and less often" if probe.reason.may_pass else ""
                refused.setdefault(f"{probe}{later}", []).append(name)
        for why, names in refused.items():
            _log.warning("probes do not run: %s: %s", ", ".join(names), why, extra={"topic": why})
