"""The agent's settings, read again while it runs: when that is asked for, and when their file has changed."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from numaudit.config.loading import Loaded, reloaded
from numaudit.config.settings import Settings
from numaudit.daemon.web.auth import AccessRules
from numaudit.errors import InputError
from numaudit.kernel.own_files import state_of

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Reload:
    """Reads the settings from where they came at start. What is wrong changes nothing."""

    read: Callable[[], Loaded]
    """Raises InputError."""
    loaded: Loaded
    """In force."""
    succeeded: bool = True
    succeeded_at: float = field(default_factory=time.time)
    _read_as: tuple[object, ...] = field(init=False)
    """The state of the file when it was read last, whether it was right or wrong."""
    _seen: tuple[object, ...] = field(init=False)
    """Its state at the last call of `is_due`."""

    def __post_init__(self) -> None:
        self._read_as = self._seen = self.loaded.read_as

    def is_due(self) -> bool:
        """Has the file changed since it was read, and stayed as it is since the last call? It may be half written."""
        state = state_of(self.loaded.files)
        is_still, self._seen = state == self._seen, state
        return is_still and state != self._read_as

    def again(self) -> Settings:
        """Read the settings again; the result is in force from now on. Raises InputError when they are wrong."""
        self._read_as = state_of(self.loaded.files)  # before it is read, so that a change meanwhile is another one
        try:
            outcome = reloaded(self.loaded, self.read())
        except InputError as error:
            self.succeeded = False
            _log.error("the changed settings are invalid, so the previous ones stay in force: %s", error)
            raise
        self.loaded, self.succeeded, self.succeeded_at = outcome.loaded, True, time.time()
        for warning in outcome.loaded.warnings:
            _log.warning("%s", warning)
        _log.info("the settings were read again; changed: %s", ", ".join(outcome.changed) or "none")
        if outcome.waiting:
            _log.warning("these changed settings take effect at the next start: %s", ", ".join(outcome.waiting))
        return outcome.loaded.settings


class Reloading(Struct):
    """Hands the settings to all that use them whenever they are read again. The main thread's alone."""

    settings: Settings
    """In force."""
    reload: Reload | None
    """None = they stay as they are."""
    access: AccessRules
    users: Sequence[Callable[[Settings], None]]
    _hung_up: bool = False
    """A SIGHUP came, and the settings have not been read since."""

    def now(self) -> None:
        """Read the settings again, and use them. Raises InputError when they are wrong: then nothing changes."""
        if self.reload is None:
            return
        self.access.now()  # by rules of its own, which let no protection be lost
        self.settings = self.reload.again()
        for use in self.users:
            use(self.settings)

    def when_due(self) -> None:
        """If their file has changed. Nobody waits for the outcome: it is in the log, and in the metrics."""
        if self.reload is not None and self.reload.is_due():
            with contextlib.suppress(InputError):
                self.now()

    def hang_up(self) -> None:
        """A SIGHUP came. This may interrupt anything."""
        self._hung_up = True

    def after_hang_up(self) -> None:
        """Once for all signals that came so far."""
        if self._hung_up:
            self._hung_up = False
            with contextlib.suppress(InputError):
                self.now()
