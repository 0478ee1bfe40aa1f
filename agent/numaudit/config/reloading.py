"""New settings that take effect in a running agent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from numaudit.config.loading import Loaded, settings_of
from numaudit.config.settings import KEYS


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The outcome of reading the settings again."""

    loaded: Loaded
    """In force from now on."""
    changed: tuple[str, ...]
    """Settings that have another value now."""
    waiting: tuple[str, ...]
    """Settings that were given another value, which takes effect at the next start."""


def reloaded(now: Loaded, new: Loaded) -> Reloaded:
    """The new settings as far as a running agent takes them; for the rest those in force stay."""
    different = [key for path, key in KEYS.items() if new.values[path] != now.values[path]]
    changed = tuple(key.path for key in different if key.reloads)
    values = {**now.values, **{path: new.values[path] for path in changed}}
    origins = {path: (new if key.reloads else now).origins[path] for path, key in KEYS.items()}
    waiting = tuple(key.path for key in different if not key.reloads)
    loaded = replace(new, settings=settings_of(values), values=values, origins=origins)
    return Reloaded(loaded, changed, waiting)
