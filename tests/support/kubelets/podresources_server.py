"""A gRPC server in the place of the kubelet's PodResources."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

Handlers = dict[str, Callable[[], bytes]]
"""Method, as in /v1.PodResourcesLister/List -> its answer."""


def _replying(answer: Callable[[], bytes]) -> grpc.RpcMethodHandler:  # type: ignore[type-arg]
    return grpc.unary_unary_rpc_method_handler(lambda _request, _context: answer(), bytes, bytes)


@contextlib.contextmanager
def serving(path: Path, handlers: Handlers, compression: grpc.Compression | None = None) -> Iterator[None]:
    """A server on this socket that knows these methods."""
    options = [("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(2), options=options, compression=compression)
    for method, answer in handlers.items():
        _, service, name = method.split("/")
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: _replying(answer)}),))
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()
