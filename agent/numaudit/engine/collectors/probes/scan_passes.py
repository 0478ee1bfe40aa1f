"""Memory that processes were seen using from another node, by the kernel's scan passes: so much of it at least.

A scan pass marks the pages of a process. The next use of a marked page faults, for the thread that comes first, and
takes the mark away. So what faults from another node was used from there. What does not fault says nothing: a page may
have been used by somebody else before, may not have been used in this pass, or may not have been marked.

A page that was marked in one pass and used in the next one is marked there once more, and can fault twice. But in k
passes that follow each other it has k + 1 marks at most, and so that many faults: of the faults of four passes at least
a fifth are different pages. More than the newest pass saw is never told.

What a pass saw stands until there is evidence against it, and so long as it is not too old:
- The same pages came home (a fault says so), or memory left its node or was unmapped (pages_used.py).
- Two passes in a row saw less, and left out less than what stands. Not one alone: the fault of a huge page may come in
  the pass after the one that marked it.
- The program ended, or executed another one: that has other memory.
Source: kernel/sched/fair.c (task_numa_work), mm/memory.c (do_numa_page).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from numaudit.probes.hint_faults import PassUse, ScanPass
from numaudit.snapshot.counted import HintFault, SeenRemote

Pages = Mapping[HintFault, int]
"""Base pages by kind of fault."""
_NO_PAGES: Pages = {}
_NO_USE = PassUse(_NO_PAGES)
_MOST_EARLIER = 3
"""Passes before the newest one by which its faults are judged."""
_STANDS = 600.0
"""Seconds for which what was seen stands at least, where no later pass decides; else as long as two passes take."""


class _Seen(Struct, frozen=True):
    """Pages that one pass saw used from another node."""

    remote: Pages
    """Of these kinds only; each page once."""
    at: float
    """Seconds since the epoch: the newest reading that had more of them than the one before."""
    passes_since: int = 0
    """Later passes that were through."""
    since: float = 0.0
    """Seconds since the epoch: the pass was first seen to go on."""

    def after(self, use: PassUse, page_size: int) -> _Seen:
        """The part that is left when a later pass is through."""
        left = _less(self.remote, _brought_home(use.pages))
        if self.passes_since and use.left_out is not None:
            left = _less(left, _total(left) - -(-use.left_out // page_size))
        return _Seen(left, self.at, self.passes_since + 1, self.since)


_NOTHING = _Seen(_NO_PAGES, 0.0)


class _Image(Struct):
    """Scan passes through the memory of one program that a process executes."""

    image: int
    number: int | None = None
    """The pass that goes on."""
    use: PassUse = _NO_USE
    since: float = 0.0
    """Seconds since the epoch: when the pass that goes on was first seen."""
    current: _Seen = _NOTHING
    """Of the pass that goes on."""
    earlier: tuple[int, ...] = ()
    """Remote faults, in pages, of the passes just before it, the newest first."""
    stands: _Seen = _NOTHING
    """Of a pass that is through."""
    lasted: float = 0.0
    """Seconds that the newest pass that is through took, as far as the ticks know."""

    def take(self, passes: Mapping[int, PassUse], page_size: int, now: float) -> None:
        """Its passes that are in the map, by number."""
        for number in sorted(passes):
            if self.number is None or number > self.number:
                self._begin(number, page_size, now)
            if number == self.number:
                self._go_on(passes[number], now)

    def _begin(self, number: int, page_size: int, now: float) -> None:
        """The pass that went on is through."""
        if self.number is not None:
            self.lasted = now - self.since
            older = self.stands.after(self.use, page_size)
            self.stands = older if _total(self.current.remote) < _total(older.remote) else self.current
            has_followed = number == self.number + 1
            self.earlier = (_total(_remote_of(self.use.pages)), *self.earlier)[:_MOST_EARLIER] if has_followed else ()
        self.number, self.since, self.use, self.current = number, now, _NO_USE, _Seen(_NO_PAGES, now, since=now)

    def _go_on(self, use: PassUse, now: float) -> None:
        """Counts of a pass rise; where the probe had to make room in its map, they begin at 0 once more."""
        if use == self.use:
            return
        if any(count > use.pages.get(kind, 0) for kind, count in self.use.pages.items()):
            use = PassUse(_most_of_both(use.pages, self.use.pages), use.left_out)
        before, remote = _total(_remote_of(self.use.pages)), _remote_of(use.pages)
        self.use = use
        at = now if _total(remote) > before else self.current.at
        self.current = _Seen(_different(remote, self.earlier), at, since=self.since)

    def seen(self, now: float) -> _Seen:
        """The pass that counts now."""
        if now - self.stands.at > max(_STANDS, 2 * self.lasted):
            self.stands = _NOTHING
        stands = _less(self.stands.remote, _brought_home(self.use.pages))
        if _total(self.current.remote) >= _total(stands):
            return self.current
        return _Seen(stands, self.stands.at, self.stands.passes_since, self.stands.since)


def _different(remote: Pages, earlier: Iterable[int]) -> Pages:
    """So many different pages there are among these faults at least, by those of the passes before."""
    total = faults = _total(remote)
    most = total / 2
    for marks, more in enumerate(earlier, start=3):
        faults += more
        most = max(most, faults / marks)
    return _less(remote, total - int(most))


def _total(pages: Pages) -> int:
    return sum(pages.values())


def _remote_of(pages: Pages) -> Pages:
    return {kind: count for kind, count in pages.items() if kind.stays_remote and count}


def _brought_home(pages: Pages) -> int:
    return sum([count for kind, count in pages.items() if kind.has_moved])


def _most_of_both(one: Pages, other: Pages) -> Pages:
    return {kind: max(one.get(kind, 0), other.get(kind, 0)) for kind in {*one, *other}}


def _less(pages: Pages, by: int) -> Pages:
    """Fewer pages, by this number. Nobody says which, so each kind loses its part."""
    total = _total(pages)
    if by <= 0 or not total:
        return pages
    left = max(0, total - by)
    return {kind: count * left // total for kind, count in pages.items()}


def _of_all(processes: Iterable[Pages]) -> Pages:
    """Private pages of each, and the shared ones of each node as the process saw them that used most of them."""
    private: dict[HintFault, int] = {}
    shared: dict[int, Pages] = {}
    for pages in processes:
        by_node: dict[int, dict[HintFault, int]] = {}
        for kind, count in pages.items():
            if kind.is_shared:
                by_node.setdefault(kind.memory_node, {})[kind] = count
            else:
                private[kind] = private.get(kind, 0) + count
        for node, own in by_node.items():
            shared[node] = max(shared.get(node, _NO_PAGES), own, key=_total)
    return {kind: count for part in (private, *shared.values()) for kind, count in part.items()}


def _bytes_by_pair(pages: Pages, page_size: int) -> dict[tuple[int, int], int]:
    """By the CPU's node and the memory's."""
    found: dict[tuple[int, int], int] = {}
    for kind, count in pages.items():
        pair = kind.cpu_node, kind.memory_node
        if count:
            found[pair] = found.get(pair, 0) + count * page_size
    return found


_NONE: Mapping[int, _Image] = {}


class ScanPasses(Struct):
    """Remembers the passes of all processes from tick to tick."""

    _images: dict[int, dict[int, _Image]] = field(default_factory=dict)
    """By cgroup id, then by process id: a process executes one program at a time."""

    def take(self, by_cgroup: Mapping[int, Mapping[ScanPass, PassUse]], page_size: int, now: float) -> set[int]:
        """Take over the passes in a reading. `now`: seconds since the epoch.

        The cgroups that have a process, or a program that one executes, that was not known.
        """
        begun: set[int] = set()
        for cgroup, passes in by_cgroup.items():
            newest: dict[int, tuple[int, dict[int, PassUse]]] = {}
            for one in sorted(passes):
                if one.process not in newest or newest[one.process][0] != one.image:
                    newest[one.process] = one.image, {}
                newest[one.process][1][one.number] = passes[one]
            images = self._images.setdefault(cgroup, {})
            for process, (image, own) in newest.items():
                known = images.get(process)
                # Fewer passes than before, too: it is another process of this id.
                if known is None or known.image != image or (known.number is not None and max(own) < known.number):
                    known = images[process] = _Image(image)
                    begun.add(cgroup)
                known.take(own, page_size, now)
        return begun

    def cgroups(self) -> set[int]:
        """Those of which something is known."""
        return {cgroup for cgroup, images in self._images.items() if images}

    def keep_only(self, cgroup: int, processes: Collection[int]) -> None:
        """Forget processes of a cgroup that have ended."""
        known = self._images.get(cgroup, {})
        for process in known.keys() - set(processes):
            del known[process]

    def keep_cgroups(self, cgroups: Collection[int]) -> None:
        """Forget cgroups that are no more."""
        for cgroup in self._images.keys() - set(cgroups):
            del self._images[cgroup]

    def of(self, cgroups: Iterable[int], page_size: int, now: float) -> SeenRemote | None:
        """Memory that the processes in these cgroups used remotely; None = no pass of theirs is known.

        Memory that several processes share is used by each of them, and counts once: as the process saw it that used
        most of it. Where only some of the memory is shared by some of them, that is less than all.
        """
        found = [one.seen(now) for id_ in cgroups for one in self._images.get(id_, _NONE).values()]
        if not found:
            return None
        pages = found[0].remote if len(found) == 1 else _of_all(one.remote for one in found)
        counting = [one for one in found if any(one.remote.values())]
        return SeenRemote(
            _bytes_by_pair(pages, page_size),
            max((now - one.at for one in counting), default=0.0),
            max((one.passes_since for one in counting), default=0),
            pass_age=max((now - one.since for one in counting), default=0.0),
        )

    def by_process(self, cgroups: Iterable[int], page_size: int, now: float) -> dict[int, SeenRemote]:
        """The same of each process that a pass is known of. Memory that several share counts for each of them."""
        found: dict[int, SeenRemote] = {}
        for process, one in (each for id_ in cgroups for each in self._images.get(id_, _NONE).items()):
            seen = one.seen(now)
            found[process] = SeenRemote(_bytes_by_pair(seen.remote, page_size), now - seen.at, seen.passes_since)
        return found
