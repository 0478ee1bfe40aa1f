"""Settings reach what they are about."""

from __future__ import annotations

from pathlib import Path

from numaudit.config.loading import load
from numaudit.engine.observer import Observer
from numaudit.evaluation.thresholds import DEFAULT
from numaudit.kernel.host import Host, KubeletConnection


def test_the_limits_of_verdicts_are_the_defaults_until_they_are_set() -> None:
    assert load(None, {}, ()).settings.verdicts.thresholds == DEFAULT
    flags = (("--set", "verdicts.cpu_remote_percent", "20"), ("--set", "verdicts.spilled_bytes", "0"))
    limits = load(None, {}, flags).settings.verdicts.thresholds
    assert (limits.cpu_remote_share, limits.spilled_bytes) == (0.2, 0)
    assert load(None, {}, (("--set", "verdicts.window", "30m"),)).settings.verdicts.thresholds.window == 1800


def test_the_kubelets_log_is_read_where_the_settings_say(tmp_path: Path) -> None:
    log = tmp_path / "kubelet.log"
    log.write_text("")
    observer = Observer.of(Host(connection=KubeletConnection(log_file=log)))
    assert str(log) in repr(observer.collectors.kubelet.poller.log)
