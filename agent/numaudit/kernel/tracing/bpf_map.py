"""BPF maps by descriptor: read all entries in few system calls, change single ones, decode per-CPU values.

Source: include/uapi/linux/bpf.h (union bpf_attr, struct bpf_map_info), kernel/bpf/{syscall,hashtab,arraymap}.c.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum

from msgspec import Struct

from numaudit.kernel.host import Host, read_text
from numaudit.kernel.tracing import bpf
from numaudit.kernel.tracing.bpf import Command
from numaudit.topology.nodeset import CpuSet

_CHUNK = 1 << 20
"""Bytes of values to fetch at a time: a read-out of many CPUs must not cost as much memory as the map."""
_SMALLEST_CHUNK = 64


class MapType(IntEnum):
    """enum bpf_map_type, as far as we use it."""

    HASH = 1
    ARRAY = 2
    PERCPU_HASH = 5
    PERCPU_ARRAY = 6
    LRU_PERCPU_HASH = 10


class MapInfo(Struct, frozen=True):
    """The kernel's information on a map. Sizes in bytes; `value_size` is that of one CPU."""

    type: int
    id: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int
    name: str

    @property
    def is_per_cpu(self) -> bool:
        return self.type in (MapType.PERCPU_HASH, MapType.PERCPU_ARRAY, MapType.LRU_PERCPU_HASH)

    def stride(self, cpus: int) -> int:
        """Bytes of one entry's value as bpf(2) copies it: per-CPU values are padded to 8 bytes each."""
        return (self.value_size + 7 & ~7) * cpus if self.is_per_cpu else self.value_size


class MapEntries(Struct, frozen=True):
    """Some entries of a map: keys and, in the same order, their values, as the kernel packs them."""

    keys: bytes
    values: bytes


class Map(Struct, frozen=True):
    """An open map. It does not own the descriptor."""

    descriptor: int
    info: MapInfo
    stride: int
    """Bytes of one value as read here, all CPUs included."""
    cpus: int = 1
    """Possible CPUs, for a per-CPU map; else 1."""

    @classmethod
    def of(cls, descriptor: int, host: Host) -> Map:
        """Ask the kernel for the map's shape. Raises OSError."""
        info = read_map_info(descriptor)
        cpus = count_possible_cpus(host) if info.is_per_cpu else 1
        return cls(descriptor, info, info.stride(cpus), cpus)

    def read(self) -> Iterator[MapEntries]:
        """All entries, in chunks; values keep changing during the read. Raises OSError.

        An entry that exists throughout comes exactly once; one that is added or deleted during the read may be missing.
        """
        capacity = min(self.info.max_entries, max(_SMALLEST_CHUNK, _CHUNK // self.stride))
        position: bytearray | None = None
        is_last = False
        while not is_last:
            keys, values = bytearray(capacity * self.info.key_size), bytearray(capacity * self.stride)
            # The position is the map's own business; the kernel writes 4 bytes, or a key for some types.
            reached = bytearray(max(4, self.info.key_size))
            try:
                count, is_last = self._batch(Command.MAP_LOOKUP_BATCH, (position, reached, keys, values), capacity)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                capacity *= 2  # one hash bucket holds more than fits
                continue
            yield MapEntries(bytes(keys[: count * self.info.key_size]), bytes(values[: count * self.stride]))
            position = reached

    def lookup(self, key: bytes) -> bytes | None:
        """One value, or None when there is no such key. Raises OSError."""
        value = bytearray(self.stride)
        try:
            self._element(Command.MAP_LOOKUP_ELEM, key, value)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return bytes(value)

    def update(self, key: bytes, value: bytes) -> None:
        """Set one value (of all CPUs). Raises OSError: E2BIG when the map is full."""
        if len(value) != self.stride:
            raise ValueError(f"map {self.info.name}: a value has {self.stride} bytes, not {len(value)}")
        self._element(Command.MAP_UPDATE_ELEM, key, bytearray(value))

    def update_all(self, entries: Mapping[bytes, bytes]) -> None:
        """Set many values in one system call. Raises OSError."""
        if entries:
            keys, values = bytearray(b"".join(entries)), bytearray(b"".join(entries.values()))
            self._batch(Command.MAP_UPDATE_BATCH, (None, None, keys, values), len(entries))

    def delete(self, key: bytes) -> bool:
        """Delete one entry; False when it was not there. Raises OSError."""
        try:
            self._element(Command.MAP_DELETE_ELEM, key, None)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return False
            raise
        return True

    def read_keys(self) -> list[bytes]:
        """All keys, as they are now. Raises OSError."""
        size = self.info.key_size
        return [one.keys[at : at + size] for one in self.read() for at in range(0, len(one.keys), size)]

    def _element(self, command: Command, key: bytes, value: bytearray | None) -> None:
        if len(key) != self.info.key_size:
            raise ValueError(f"map {self.info.name}: a key has {self.info.key_size} bytes, not {len(key)}")
        own_key = bytearray(key)
        attributes = struct.pack("=IIQQQ", self.descriptor, 0, _address(own_key), _address(value), 0)
        bpf.command(command, bytearray(attributes))

    def _batch(
        self, command: Command, buffers: tuple[bytearray | None, bytearray | None, bytearray, bytearray], count: int
    ) -> tuple[int, bool]:
        """Entries done, and is this the end of the map? Buffers: position before and after, keys, values.

        For hashes since Linux 5.6, for arrays since 5.13. Raises OSError.
        """
        attributes = bytearray(struct.pack("=QQQQIIQQ", *map(_address, buffers), count, self.descriptor, 0, 0))
        is_last = False
        try:
            bpf.command(command, attributes)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            is_last = True
        (done,) = struct.unpack_from("=I", attributes, 32)
        return int(done), is_last


def read_map_info(descriptor: int) -> MapInfo:
    """The map's shape. Raises OSError."""
    info = bpf.read_info(descriptor, 80)
    kind, number, key_size, value_size, max_entries, flags, name = struct.unpack_from("=IIIIII16s", info)
    return MapInfo(kind, number, key_size, value_size, max_entries, flags, name.rstrip(b"\0").decode())


def count_possible_cpus(host: Host) -> int:
    """Number of values in a per-CPU entry: one for each possible CPU, online or not."""
    return len(CpuSet.parse(read_text(host.cpus / "possible")))


def sum_per_cpu(values: bytes, cpus: int, field: int = 0, fields: int = 1) -> list[int]:
    """Sum each entry over its CPUs. A CPU's value is `fields` u64; `field` says which one to sum.

    One C-level pass over the buffer: 10,000 entries of 128 CPUs take some 30 ms.
    """
    rows: Iterable[tuple[int, ...]] = struct.iter_unpack(f"={cpus * fields}Q", values)
    if fields == 1:
        return list(map(sum, rows))
    return [sum(row[field::fields]) for row in rows]


def _address(buffer: bytearray | None) -> int:
    return 0 if buffer is None else bpf.address_of(buffer)
