"""Names of verbs that `kubectl numaudit` does not have."""

from __future__ import annotations

import pytest

from numaudit.cli.cluster import plugin


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["repot"], "there is no verb 'repot'; did you mean report?"),
        (["-n", "prod", "xyz"], "there is no verb 'xyz'; `kubectl numaudit --help` lists the verbs"),
        (["state", "verfy"], "there is no verb 'verfy'; did you mean verify?"),
    ],
)
def test_a_verb_that_is_not_there_is_named_with_the_nearest(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert plugin.call(words) == 2
    assert said in capsys.readouterr().err
