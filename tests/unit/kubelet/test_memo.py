"""Work that is done again only when its inputs changed."""

from __future__ import annotations

import pytest

from numaudit.kubelet.sources.memo import Inputs, Memo


def test_the_same_inputs_give_the_same_result_without_work() -> None:
    calls: list[tuple[str, int]] = []

    def work(text: str, times: int) -> str | None:
        calls.append((text, times))
        return text * times or None

    memo = Memo(work)
    assert [memo("a", 2), memo("a", 2), memo("a", times=3), memo("", 1), memo("", 1)] == ["aa", "aa", "aaa", None, None]
    assert calls == [("a", 2), ("a", 3), ("", 1)]


def test_work_that_failed_is_tried_again() -> None:
    answers = iter([0, 4])
    memo = Memo(lambda number: number // next(answers))
    with pytest.raises(ZeroDivisionError):
        memo(8)
    assert memo(8) == 2


def test_the_same_object_is_not_compared() -> None:
    class Incomparable:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            raise AssertionError

    inputs, one = Inputs(), Incomparable()
    assert [inputs.changed(one, 1), inputs.changed(one, 1), inputs.changed(one, 2)] == [True, False, True]
