"""Names in place of UIDs."""

from __future__ import annotations

import pytest

from numaudit.containermanager.pod.names import full_name, with_names


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("prod", "mysql-0", "uid", "db"), "prod/mysql-0/db"),
        (("prod", "mysql-0", "uid", None), "prod/mysql-0"),
        ((None, None, "uid", "db"), "pod uid/db"),
        ((None, None, None, "/web"), "/web"),
        ((None, None, None, None), ""),
    ],
)
def test_a_container_is_called_as_far_as_its_names_are_known(
    parts: tuple[str | None, str | None, str | None, str | None], name: str
) -> None:
    assert full_name(*parts) == name


def test_only_whole_uids_that_have_a_name_are_replaced() -> None:
    names = {"abc": "prod/a", "abc-d": "prod/b", "": "nobody"}
    text = "pod abc, pod abc-d; entries.abc.db (abcd, xabc, abc-e)"
    assert with_names(text, names) == "pod prod/a, pod prod/b; entries.prod/a.db (abcd, xabc, abc-e)"
    assert with_names("pod x has 2 of 3", names) == "pod x has 2 of 3"
