"""Features that the agent can measure on this host, as the doctor finds them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from msgspec import Struct

from numaudit.doctor.checks import examine
from numaudit.exporters.facts import Feature
from numaudit.kernel.host import Host
from numaudit.kubelet.sources.readings import KubeletReadings
from numaudit.probes.reasons import ProbeRefusal
from numaudit.probes.session import Session
from numaudit.snapshot import CollectorOutcome


class Features(Struct):
    """Examined at the first tick, and again when a source or a probe has changed its state."""

    host: Host
    session: Session | None
    """None = nothing is examined."""
    kubelet: Callable[[], KubeletReadings | None] = lambda: None
    """Readings of the kubelet in this tick; it has its share of a tick and is not asked again here."""
    _known: tuple[Feature, ...] = ()
    _examined_at: Hashable = None

    def after(self, sources: Sequence[CollectorOutcome]) -> tuple[Feature, ...]:
        """As they are after a tick in which the sources fared like this."""
        if self.session is None:
            return ()
        probes = {name: isinstance(one, ProbeRefusal) and one.reason for name, one in self.session.probes.items()}
        state = (tuple(probes.items()), tuple((one.source, one.state) for one in sources))
        if state != self._examined_at:
            self._examined_at = state
            self._known = tuple(map(Feature.of, examine(self.host, self.session, self.kubelet())))
        return self._known
