"""Pages and tasks that were moved between nodes, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.probes.migrations import MIGRATIONS
from numaudit.snapshot import Snapshot
from numaudit.snapshot.counted import Migrated, MigratedPages

Key = TypeVar("Key")


class MigrationsCollector(Collector):
    name = "migrations"
    probe = MIGRATIONS

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Migrations that each container's tasks carried out. Raises Unavailable when the probe does not run."""
        reading = tick.read(MIGRATIONS)
        skipped.not_counted(reading.all_lost, "migrations")
        add_up = tick.owners.add_up
        succeeded = add_up("migrations succeeded", reading.succeeded)
        failed = add_up("migrations failed", reading.failed)
        tasks = add_up("task moves", reading.tasks)
        moved = add_up("migrations between nodes succeeded", reading.succeeded_between)
        stayed = add_up("migrations between nodes failed", reading.failed_between)
        refused = reading.nodes_refused
        if refused is not None:
            skipped.note(f"without the nodes that pages were moved between: {refused.text}")
        migrated = {
            owner: Migrated(
                _pages(succeeded.get(owner, {}), failed.get(owner, {})),
                tasks.get(owner, {}),
                _pages(moved.get(owner, {}), stayed.get(owner, {})) if refused is None else None,
            )
            for owner in (succeeded | tasks)
        }
        return replace(snapshot, migrations=migrated)


def _pages(succeeded: Mapping[Key, int], failed: Mapping[Key, int]) -> dict[Key, MigratedPages]:
    """Both have every key: a program writes both values at once."""
    return {key: MigratedPages(done, failed.get(key, 0)) for key, done in succeeded.items()}
