"""Admissions put together from the lines of the kubelet's log. Pure: events in, records out.

The kubelet admits one pod at a time, so the lines of one admission follow each other; those of the
container's creation ("Memory affinity") come later and between others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.intent.pods import HintRecord, Rejection
from numaudit.kubelet.parsers import log

MOST_RECORDS = 4096
"""Kept of hints, and of rejections; the oldest go first. A node runs some hundred pods."""
_MOST_PROVIDERS = 16

_SETS = {"cpus", "memory_nodes"}
_OF_A_RECORD = ("best", "merged", "regenerated", *_SETS, "allocate_error")
"""Fields of a Step that a HintRecord has, too."""

_AdmissionKey = tuple[str, str, str | None]


class LogFacts(Struct, frozen=True):
    """Facts in the log so far, as a value."""

    records: tuple[HintRecord, ...] = ()
    """The newest admission of each container or pod, and instead of a repeated one the first of that pod."""
    rejections: Mapping[str, Rejection] = field(default_factory=dict)
    """By pod UID."""
    topology: log.TopologyManagerSettings | None = None
    version: str | None = None
    start_error: str | None = None
    """Reason why the kubelet's newest start failed."""
    denials: Mapping[str, int] | None = None
    """Reason -> pods refused since the newest start; None = the log does not reach back to it."""


class Admissions(Struct):
    """Facts in the log so far: the newest admission of each container (or pod), and of the kubelet itself."""

    rejections: dict[str, Rejection] = field(default_factory=dict)
    """By pod UID."""
    topology: log.TopologyManagerSettings | None = None
    version: str | None = None
    start_error: str | None = None
    """Reason why the kubelet's newest start failed."""
    denials: Counter[str] | None = None
    """Reason -> pods refused since the newest start; None = the log does not reach back to it."""
    _records: dict[_AdmissionKey, HintRecord] = field(default_factory=dict)
    _newest: dict[tuple[str, str], _AdmissionKey] = field(default_factory=dict)
    _replaced: dict[_AdmissionKey, HintRecord] = field(default_factory=dict)
    """The record before the newest one."""
    _first: dict[_AdmissionKey, HintRecord] = field(default_factory=dict)
    """The record that decided, where the newest one is regenerated."""
    _current: log.Subject | None = None
    """Subject of the newest lines: the kubelet admits one pod at a time."""
    _is_torn: bool = False
    """A provider's hints in the admission at hand were not understood."""
    _facts: LogFacts | None = None

    @property
    def facts(self) -> LogFacts:
        """The same value until the next event."""
        if self._facts is None:
            denials = None if self.denials is None else dict(self.denials)
            of_kubelet = (self.topology, self.version, self.start_error, denials)
            self._facts = LogFacts(self.records, dict(self.rejections), *of_kubelet)
        return self._facts

    @property
    def records(self) -> tuple[HintRecord, ...]:
        """The newest admission of each container or pod, and instead of a repeated one the first of that pod."""
        return tuple([self._first.get(key, record) for key, record in self._records.items()])

    def add(self, event: log.LogEvent) -> None:
        """Take in the next event, in the order of the log."""
        self._facts = None
        match event:
            case log.TopologyManagerSettings():
                self.topology, self.start_error = event, None
                self.denials = Counter()
                self._current = None
            case log.LoggedVersion():
                self.version = event.version
            case log.StartFailure():
                self.start_error = event.error
            case log.Hints():
                self._hints(event)
            case log.Denied():
                self._denied(event)
            case log.AdmissionStep():
                self._step(event)

    def miss_hints(self) -> None:
        """A provider's hints were not understood. Those of its admission are known by their order, so none is kept."""
        record = None if self._current is None else self._find(self._current)
        if record is not None and record.best is None:
            self._records[record.namespace, record.pod, record.container] = replace(record, providers=())
        self._is_torn, self._current, self._facts = True, None, None

    def _hints(self, event: log.Hints) -> None:
        self._current = who = event.subject
        key = (who.namespace, who.pod, who.container)
        record = self._records.get(key)
        # After the merge the next hint belongs to another admission, of a restarted kubelet or a new pod.
        if record is None or record.best is not None or len(record.providers) >= _MOST_PROVIDERS:
            self._set_aside(key)
            record = HintRecord(who.namespace, who.pod, who.container, who.pod_uid, event.at)
        providers = () if self._is_torn else (*record.providers, event.hints)
        self._keep(key, replace(record, providers=providers))

    def _set_aside(self, key: _AdmissionKey) -> None:
        record = self._first.pop(key, None) or self._records.get(key)
        self._replaced.pop(key, None)
        if record is not None:
            self._replaced[key] = record

    def _step(self, step: log.AdmissionStep) -> None:
        if step.memory_nodes is None:  # that is of a container's creation, which comes between the lines of others
            self._current = step.subject or self._current
        who = step.subject or self._current
        record = None if who is None else self._find(who)
        self._is_torn = self._is_torn and step.best is None
        if who is None or record is None:
            return
        said: dict[str, Any] = {name: getattr(step, name) for name in _OF_A_RECORD if getattr(step, name) is not None}
        if record.container is None:  # With pod scope all containers give theirs to one record.
            said |= {name: said[name] | (getattr(record, name) or said[name]) for name in _SETS & said.keys()}
        if record.pod_uid is None and who.pod_uid is not None:
            said["pod_uid"] = who.pod_uid
        key = (record.namespace, record.pod, record.container)
        self._records[key] = record = replace(record, **said)
        if step.regenerated:
            before = self._replaced.pop(key, None)
            if before is not None and before.denial is None and before.pod_uid == record.pod_uid:
                self._first[key] = before

    def _denied(self, event: log.Denied) -> None:
        who, uid = event.subject, event.pod_uid
        self._current = None
        if self.denials is not None:
            self.denials[event.reason] += 1
        denial = Rejection(uid, who.namespace, who.pod, event.reason, event.message, event.at)
        self.rejections.pop(uid, None)
        self.rejections[uid] = denial
        if len(self.rejections) > MOST_RECORDS:
            del self.rejections[next(iter(self.rejections))]
        key = self._newest.get((who.namespace, who.pod))
        record = None if key is None else self._records[key]
        # A pod that was refused for another reason has no record; the one there is may be of an older pod.
        if key is None or record is None or record.denial is not None or record.pod_uid not in (None, uid):
            return
        if record.merged and record.memory_nodes is not None:
            return
        merged = record.merged or False
        self._records[key] = replace(record, pod_uid=uid, denial=denial, merged=merged)

    def _find(self, who: log.Subject) -> HintRecord | None:
        """The container's record, else its pod's: with pod scope one record serves all containers."""
        for container in (who.container, None):
            record = self._records.get((who.namespace, who.pod, container))
            if record is not None and (None in (record.pod_uid, who.pod_uid) or record.pod_uid == who.pod_uid):
                return record
        return None

    def _keep(self, key: _AdmissionKey, record: HintRecord) -> None:
        self._records.pop(key, None)
        self._records[key] = record
        self._newest[key[:2]] = key
        if len(self._records) > MOST_RECORDS:
            oldest = next(iter(self._records))
            del self._records[oldest]
            self._replaced.pop(oldest, None)
            self._first.pop(oldest, None)
            if self._newest.get(oldest[:2]) == oldest:
                del self._newest[oldest[:2]]
