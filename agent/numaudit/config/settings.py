"""The agent's settings: a YAML file, the environment above it, flags above both.

A setting is one field below. Its kind checks the value, its help goes to docs/config.md, its path (`web.timeout`)
is what a file, `--set` and messages call it, and NUMAUDIT_WEB_TIMEOUT is its environment variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from numaudit.config.kinds import (
    KindOf,
    address,
    boolean,
    choice,
    choices,
    duration,
    file,
    mapping,
    number,
    percent,
    selectors,
    url,
)
from numaudit.evaluation.thresholds import DEFAULT, Thresholds
from numaudit.exporters import selection
from numaudit.exporters.metric import IDENTITY
from numaudit.exporters.selection import Selector
from numaudit.kernel.host import KubeletConnection
from numaudit.probes.kinds import KINDS

ENVIRONMENT_PREFIX = "NUMAUDIT_"
Value = TypeVar("Value")
Pairs = tuple[tuple[str, str], ...]


def _setting(default: Value, kind: KindOf, help_: str, secret: bool = False, reloads: bool = False) -> Value:
    """`reloads`: another value takes effect in a running agent."""
    return field(default=default, metadata={"kind": kind, "help": help_, "secret": secret, "reloads": reloads})


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is written to stderr, and how."""

    level: str = _setting(
        "info", choice("debug", "info", "warning", "error"), "Least severe messages to write.", reloads=True
    )
    format: str = _setting(
        "text", choice("text", "json"), "`text` for people, `json` for one object on each line.", reloads=True
    )


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The HTTP server."""

    config_file: Path | None = _setting(
        None,
        file(),
        "TLS, client certificates, users: a web-config file as all Prometheus exporters take it. It is read again by "
        "itself when it changes.",
    )
    max_connections: int = _setting(
        128, number(4, 4096), "Connections at a time. Over it, the one whose client has been idle longest is closed."
    )
    timeout: float = _setting(5.0, duration(0.1, 300), "Time for a whole request to arrive, or its answer to leave.")
    reload: bool = _setting(False, boolean(), "POST to `/-/reload` reads the settings again.", reloads=True)


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """What both exporters send."""

    labels: tuple[str, ...] = _setting(
        IDENTITY,
        choices(*IDENTITY),
        "Labels that container series carry. Series that are the same without the others are added up; "
        "families that cannot be added up (info, ratios) are left out then.",
        reloads=True,
    )
    exclude: tuple[Selector, ...] = _setting(
        tuple(map(selection.parse, ("kind=sandbox", "kind=pod", "kind=slice", "kind=parent"))),
        selectors(),
        "Containers without series. Conditions: namespace, pod, kind "
        f"({', '.join(selection.KINDS)}) and cgroup, as patterns of a shell; `*` is every container.",
        reloads=True,
    )
    include: tuple[Selector, ...] = _setting(
        (), selectors(), "Containers that have series although `metrics.exclude` names them.", reloads=True
    )
    max_series: int = _setting(
        100_000,
        number(100, 10_000_000),
        "Container series at most. Over it, whole containers are left out, at first those with the best verdicts and "
        "the least remote bytes, and `numaudit_omitted_series` says how many series are missing.",
        reloads=True,
    )
    max_ended: int = _setting(
        1000, number(0, 1_000_000), "Ended containers at most that are kept for the next two scrapes.", reloads=True
    )
    created: bool = _setting(
        False,
        boolean(),
        "OpenMetrics: a `_created` series with each counter. Prometheus stores it as one more series "
        "unless it runs with `--enable-feature=created-timestamp-zero-ingestion`.",
        reloads=True,
    )


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    """The push to an OpenTelemetry collector."""

    endpoint: str | None = _setting(
        None,
        url(),
        "URL of the receiver, such as http://collector:4318/v1/metrics; a user and a password in it are sent as basic "
        "authentication. Unset = no push.",
    )
    interval: float = _setting(60.0, duration(1, 3600), "Time between two pushes.")
    timeout: float = _setting(10.0, duration(0.1, 300), "Time for one push: connecting, sending, answers and retries.")
    compression: str = _setting("gzip", choice("gzip", "none"), "Of the request body.")
    ca_file: Path | None = _setting(
        None, file(), "The only certificate authorities to trust; unset = the system's. Read at start."
    )
    headers: Pairs = _setting((), mapping(), "Headers to send along, such as a token.", secret=True)
    resource: Pairs = _setting(
        (), mapping(), "Resource attributes to add, such as k8s.cluster.name; they win over those detected."
    )


@dataclass(frozen=True, slots=True)
class OverheadSettings:
    """What measuring may cost."""

    max_cpu_percent: float = _setting(
        1.0,
        percent(0.01, 100),
        "Share of all CPUs' time that the probes may take, by estimate. Over it page_alloc is paused, then "
        "fewer containers are watched, then first_touch and hint_faults are paused; each resumes when there is less "
        "load.",
        reloads=True,
    )


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """How to reach the kubelet where that cannot be found out on the host, as in a pod with a network of its own."""

    url: str | None = _setting(
        None, url(), "https://NODE:10250 or http://NODE:10255; unset = by the kubelet's own settings."
    )
    token_file: Path | None = _setting(None, file(), "File with the token to show it; unset = the service account's.")
    ca_file: Path | None = _setting(None, file(), "Whom to trust for it; unset = the kubelet itself or the cluster.")
    log_file: Path | None = _setting(None, file(), "The kubelet's log; unset = the journal.")

    @property
    def connection(self) -> KubeletConnection:
        return KubeletConnection(self.url, self.token_file, self.ca_file, self.log_file)


@dataclass(frozen=True, slots=True)
class VerdictSettings:
    """The limits of verdicts; docs/verdicts.md says what each decides."""

    cpu_remote_percent: float = _setting(
        100 * DEFAULT.cpu_remote_share,
        percent(0, 100),
        "CPU time on other nodes than the promised ones: cpu-remote.",
        reloads=True,
    )
    spilled_percent: float = _setting(
        100 * DEFAULT.spilled_share,
        percent(0, 100),
        "Judged bytes outside the promised nodes: spilled, if also",
        reloads=True,
    )
    spilled_bytes: int = _setting(
        DEFAULT.spilled_bytes, number(0, 1 << 50), "more bytes than this are outside.", reloads=True
    )
    remote_access_percent: float = _setting(
        100 * DEFAULT.remote_access_share,
        percent(0, 100),
        "remote-access, if more than this share of its accesses (or, uncounted, of its memory) is remote.",
        reloads=True,
    )
    window: float = _setting(
        DEFAULT.window,
        duration(15, 86400),
        "Time for which samples of memory and CPU time count in verdicts, for less the older they are.",
        reloads=True,
    )

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(
            cpu_remote_share=self.cpu_remote_percent / 100,
            spilled_share=self.spilled_percent / 100,
            spilled_bytes=self.spilled_bytes,
            remote_access_share=self.remote_access_percent / 100,
            window=self.window,
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of `numaudit agent`."""

    listen: tuple[str, int] = _setting(
        ("127.0.0.1", 9746), address(), "HOST:PORT of the HTTP server; `:9746` = all interfaces."
    )
    interval: float = _setting(15.0, duration(1, 3600), "Time between two ticks.", reloads=True)
    probes: tuple[str, ...] = _setting(
        tuple(sorted(kind.name for kind in KINDS if kind.by_default and kind.in_agent)),
        choices(*sorted(kind.name for kind in KINDS)),
        "Probes to run. page_alloc runs once for every page that the kernel gives away, and first_touch samples "
        "page faults. An empty list = none.",
    )
    kubelet: KubeletSettings = KubeletSettings()
    verdicts: VerdictSettings = VerdictSettings()
    overhead: OverheadSettings = OverheadSettings()
    log: LogSettings = LogSettings()
    web: WebSettings = WebSettings()
    metrics: MetricsSettings = MetricsSettings()
    otlp: OtlpSettings = OtlpSettings()


@dataclass(frozen=True, slots=True)
class Key:
    """One setting, as documents and messages name it."""

    path: str
    default: Any
    kind: KindOf
    help: str
    secret: bool
    reloads: bool
    """Whether another value takes effect in a running agent."""

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.path.replace(".", "_").upper()


def keys(section: type = Settings, prefix: str = "") -> Iterator[Key]:
    """Every setting, in the order of the documents."""
    for one in fields(section):
        path = prefix + one.name
        if is_dataclass(one.default):
            yield from keys(cast("type", type(one.default)), f"{path}.")
        else:
            meta = one.metadata
            yield Key(path, one.default, meta["kind"], meta["help"], meta["secret"], meta["reloads"])


KEYS: dict[str, Key] = {key.path: key for key in keys()}
