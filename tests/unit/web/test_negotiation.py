"""The form of the metrics that a scraper gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import choose_encoder

from numaudit.exporters.prometheus import ScrapeForm
from numaudit.web.negotiation import negotiate

PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;"
    "q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "encoding", "form", "content_type"),
    [
        (PROMETHEUS_3, "gzip", ScrapeForm("openmetrics", True), "application/openmetrics-text; version=1.0.0"),
        ("", "", ScrapeForm("text", False), "text/plain; version=0.0.4"),
        ("*/*", "gzip;q=0, identity", ScrapeForm("text", False), "text/plain; version=0.0.4"),
        ("text/html", "deflate, *;q=0.5", ScrapeForm("text", True), "text/plain; version=0.0.4"),
    ],
)
def test_the_scraper_gets_the_form_it_asks_for(accept: str, encoding: str, form: ScrapeForm, content_type: str) -> None:
    found, found_type = negotiate(accept, encoding)
    assert found == form
    assert found_type.startswith(content_type)


PARTS = st.builds(
    ";".join,
    st.tuples(
        st.sampled_from(("application/openmetrics-text", "text/plain", " text/plain", "text/html", "*/*", "")),
        st.sampled_from(("", "version=0.0.1", "version=0.0.4", "version=1.0.0", " version=1.0.0 ", "version=")),
        st.sampled_from(("", "escaping=allow-utf-8", " escaping=values", "escaping=none", "charset=utf-8")),
        st.sampled_from(("", "q=0.3", "version=1.0.0", "escaping=dots")),
    ),
)


@given(st.lists(PARTS, max_size=4).map(",".join))
def test_any_scraper_gets_what_the_client_library_would_choose(accept: str) -> None:
    _, content_type = choose_encoder(accept)
    form, found = negotiate(accept, "")
    assert found == content_type
    assert form.format == ("openmetrics" if "openmetrics" in content_type else "text")


@pytest.mark.parametrize("version", ["2.0.0", "1", "abc", "\u0661.0.0", "9" * 5000])
def test_a_version_that_we_do_not_write_is_never_the_one_that_is_named(version: str) -> None:
    _, content_type = negotiate(f"application/openmetrics-text; version={version}", "")
    assert content_type.split("; ")[1] in ("version=1.0.0", "version=0.0.4")
