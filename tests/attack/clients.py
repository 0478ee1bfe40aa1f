"""Clients that do harm, in a process of their own so that they delay nobody who measures.

Each does one bad thing on one connection, and begins again when that ends. None needs more than the loopback.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import logging
import os
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

_NEVER = 3.0
"""Seconds. Who does not read is not told that its connection has ended."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_PAUSE = 0.05
"""Seconds from the end of a connection to the next one of the same client."""


@dataclass(slots=True)
class Target:
    """An agent, and what its scraper knows: a client may be greedy with a right password."""

    port: int
    authorization: str

    @asynccontextmanager
    async def connect(self, tls: bool = True, address: str = "127.0.0.1") -> AsyncIterator[Streams]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if tls else None
        if context is not None:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context, local_addr=(address, 0), limit=1024
        )
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


def _request(path: str, authorization: str, encoding: str = "identity") -> bytes:
    headers = f"Host: a\r\nAuthorization: {authorization}\r\nAccept-Encoding: {encoding}\r\n"
    return f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode()


async def _silent(target: Target) -> None:
    async with target.connect(tls=False) as (reader, _):
        await reader.read()


async def _half_handshake(target: Target) -> None:
    async with target.connect(tls=False) as (reader, writer):
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        await reader.read()


async def _slow(target: Target) -> None:
    async with target.connect() as (_, writer):
        for byte in itertools.chain(b"GET /metrics HTTP/1.1\r\nX: ", itertools.repeat(ord("y"))):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.1)


async def _huge_headers(target: Target) -> None:
    async with target.connect() as (_, writer):
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\n")
        for number in range(99):
            writer.write(b"X%d: " % number + b"y" * 65_000 + b"\r\n")
            await writer.drain()


async def _never_reading(target: Target) -> None:
    """Its right password makes the answers large."""
    async with target.connect() as (_, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(500):
            writer.write(_request("/metrics", target.authorization))
        await asyncio.sleep(_NEVER)


async def _greedy(target: Target) -> None:
    async with target.connect() as (reader, writer):
        for path in itertools.cycle(("/metrics", "/report.json", "/", "/nothing")):
            writer.write(_request(path, target.authorization, "gzip"))
            await _answer(reader)


async def _wrong_password(target: Target) -> None:
    """From the scraper's own address or another one."""
    async with target.connect(address=f"127.0.0.{random.randint(1, 100)}") as (reader, writer):
        while True:
            guess = base64.b64encode(b"prometheus:" + os.urandom(9).hex().encode()).decode()
            writer.write(_request("/metrics", f"Basic {guess}"))
            await _answer(reader)


async def _answer(reader: asyncio.StreamReader) -> None:
    length = 0
    while (line := await reader.readline()) != b"\r\n":
        if not line:
            raise ConnectionError("closed")
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while length > 0 and (part := await reader.read(min(length, 1 << 16))):
        length -= len(part)


KINDS: dict[Callable[[Target], Awaitable[None]], int] = {
    _silent: 500,
    _half_handshake: 60,
    _slow: 30,
    _huge_headers: 10,
    _never_reading: 100,
    _greedy: 2,
    _wrong_password: 50,
}
"""How many of each."""


@contextmanager
def attacking(port: int, authorization: str) -> Iterator[None]:
    """All of them at once until the block ends."""
    process = get_context("fork").Process(target=_attack, args=(Target(port, authorization),), daemon=True)
    process.start()
    try:
        yield
        assert process.is_alive(), "the attack ended early"
    finally:
        process.kill()
        process.join()


def _attack(target: Target) -> None:
    os.nice(10)  # it shares the CPUs with the agent, as clients elsewhere would not
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    asyncio.run(_all(target))


async def _all(target: Target) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    await asyncio.gather(*(_again_and_again(kind, target) for kind, count in KINDS.items() for _ in range(count)))


async def _again_and_again(kind: Callable[[Target], Awaitable[None]], target: Target) -> None:
    while True:
        with contextlib.suppress(OSError, EOFError, ValueError):
            await kind(target)
        await asyncio.sleep(_PAUSE)
