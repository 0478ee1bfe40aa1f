"""The receiver of OTLP over HTTP: its address and the trusted authorities.

Only the settings decide where a push goes and which authorities it trusts: no OTEL_EXPORTER_* variable.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from numaudit import __version__
from numaudit.errors import InputError
from numaudit.net.files import tls_context
from numaudit.net.target import Target, check_headers, target_of

METRICS_PATH = "/v1/metrics"


def target(endpoint: str, headers: Mapping[str, str], ca_file: Path | None, compression: str) -> Target:
    """The receiver of a URL; one without a path means the standard one. Raises InputError."""
    url = urlsplit(endpoint)
    tls = url.scheme == "https"
    context = _context(ca_file) if tls or ca_file is not None else None
    sent = {"Content-Type": "application/x-protobuf", "User-Agent": f"numaudit/{__version__}"}
    if compression == "gzip":
        sent["Content-Encoding"] = "gzip"
    check_headers(headers, "otlp.headers")
    path = METRICS_PATH if url.path in ("", "/") else url.path
    return target_of(url, path, {**sent, **headers}, context if tls else None)


def _context(ca_file: Path | None) -> ssl.SSLContext:
    """Trusts these authorities alone; None = the system's."""
    try:
        return tls_context(ca_file)
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
        raise InputError(
            f"otlp.ca_file {ca_file}: {reason or error}; give a readable file with certificate authorities in PEM"
        ) from None
