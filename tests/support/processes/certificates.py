"""Certificates for tests, made with the openssl command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority whose files are in a folder: `ca.pem`, `ca.key`."""

    folder: Path

    def __post_init__(self) -> None:
        _openssl("req", "-x509", *_NEW_KEY, "-days", "2", "-subj", "/CN=test authority",
                 "-keyout", f"{self.folder}/ca.key", "-out", f"{self.folder}/ca.pem")  # fmt: skip

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.pem"

    def issue(self, name: str, folder: Path) -> tuple[Path, Path]:
        """Certificate and key for a DNS name, for servers and clients."""
        certificate, key, request = (folder / f"{name}.{suffix}" for suffix in ("pem", "key", "csr"))
        extensions = folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName=DNS:{name},IP:127.0.0.1\n")
        _openssl("req", *_NEW_KEY, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request))
        _openssl("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", f"{self.folder}/ca.key",
                 "-CAcreateserial", "-days", "2", "-extfile", str(extensions), "-out", str(certificate))  # fmt: skip
        return certificate, key


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
