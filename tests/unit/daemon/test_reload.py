"""The settings file is read again when it has changed and is complete, once for each change."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import pytest

from clusters.config_map import ConfigMap
from numaudit.config.loading import load
from numaudit.daemon.reload import Reload
from numaudit.errors import InputError


@pytest.fixture
def volume(tmp_path: Path) -> ConfigMap:
    return ConfigMap(tmp_path / "volume", "agent.yaml", "interval: 10s\n")


def _reload(path: Path | None) -> Reload:
    read = partial(load, path, {}, ())
    return Reload(read, read())


def test_a_file_that_nobody_changed_is_not_read_again(volume: ConfigMap) -> None:
    reload = _reload(volume.path)
    assert [reload.is_due() for _ in range(3)] == [False] * 3


def test_a_swapped_volume_is_read_once_it_is_still(volume: ConfigMap) -> None:
    reload = _reload(volume.path)
    volume.swap("interval: 20s\n")
    assert [reload.is_due(), reload.is_due()] == [False, True]
    assert reload.again().interval == 20
    assert [reload.is_due(), reload.is_due()] == [False, False]


def test_a_file_that_is_being_written_waits(volume: ConfigMap) -> None:
    reload = _reload(volume.path)
    for text in ("", "inter", "interval: 20s\n"):
        volume.path.write_text(text)
        assert not reload.is_due()
    assert reload.is_due()


def test_a_change_between_the_first_read_and_the_first_check_is_noticed(volume: ConfigMap) -> None:
    reload = _reload(volume.path)
    volume.swap("interval: 20s\n")
    reload.is_due()
    assert reload.is_due()


def test_a_wrong_file_is_reported_once_and_the_settings_before_stay(
    volume: ConfigMap, caplog: pytest.LogCaptureFixture
) -> None:
    reload = _reload(volume.path)
    volume.swap("interval: never\n")
    with caplog.at_level(logging.INFO):
        for _ in range(4):
            if reload.is_due():
                with pytest.raises(InputError, match="interval must be"):
                    reload.again()
    assert len(caplog.messages) == 1
    assert (reload.succeeded, reload.loaded.settings.interval) == (False, 10)
    volume.swap("interval: 10s\n")
    reload.is_due()
    assert reload.is_due()
    reload.again()
    assert reload.succeeded


def test_a_file_that_is_gone_is_wrong_until_it_is_back(volume: ConfigMap) -> None:
    reload = _reload(volume.path)
    target = volume.path.resolve()
    target.rename(target.with_suffix(".away"))
    assert [reload.is_due(), reload.is_due()] == [False, True]
    with pytest.raises(InputError, match="cannot read"):
        reload.again()
    assert not reload.is_due()
    target.with_suffix(".away").rename(target)
    assert [reload.is_due(), reload.is_due()] == [False, True]
    reload.again()
    assert reload.succeeded


def test_a_signal_reads_a_changed_file_before_its_time(volume: ConfigMap) -> None:
    reload = _reload(volume.path)
    volume.swap("interval: 20s\n")
    assert reload.again().interval == 20
    assert [reload.is_due() for _ in range(3)] == [False] * 3


def test_without_a_file_there_is_nothing_to_watch() -> None:
    reload = _reload(None)
    assert [reload.is_due(), reload.is_due()] == [False, False]
