"""URIs match the templates they can come from."""

from __future__ import annotations

import time

import pytest

from workspace_server.catalog.offerings import matches


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("demo://item/{id}", "demo://item/7", True),
        ("demo://item/{id}", "demo://item/", True),
        ("demo://item/{id}", "demo://item/7/more", False),
        ("demo://item/{id}", "demo://other/7", False),
        ("demo://item/{id}/raw", "demo://item/7/raw", True),
        ("demo://item/{id}/raw", "demo://item/7/raw/8/raw", False),
        ("demo://{a}-{b}", "demo://x-y-z", True),
        ("demo://{a}{b}.txt", "demo://xy.txt", True),
        ("demo://{a}{b}.txt", "demo://xy.txt.gz", False),
        ("file:///{+path}", "file:///a/b/c.txt", True),
        ("file:///{+path}/end", "file:///a/end/b/end", True),
        ("x://find{?q,limit}", "x://find", True),
        ("x://find{?q,limit}", "x://find?q=a/b&limit=3", True),
        ("x://find{?q}", "x://finds/1", True),
        ("x://a{/path*}", "x://a/b/c", True),
        ("x://a{#part}", "x://a#there", True),
        ("x://a{.kind}", "x://a.txt", True),
        ("x://a", "x://a", True),
        ("x://a", "x://ab", False),
        ("x://a.c", "x://abc", False),
        ("x://%7Bid%7D/{id}", "x://%7Bid%7D/1", True),
        ("{+anything}", "whatever://it/is", True),
        ("x://{open", "x://{open", True),
    ],
)
def test_a_uri_fits_a_template(template: str, uri: str, expected: bool) -> None:
    """Generous: the server that is asked decides."""
    assert matches(template, uri) is expected


def test_templates_made_to_be_slow_are_not() -> None:
    """A thousand ways to divide the URI are one walk each."""
    began = time.thread_time()
    assert not matches("{a}" * 32 + "!", "x" * 8000)
    assert not matches("{+a}x" * 32 + "!", "x" * 8000)
    assert not matches("{a}" * 33, "x")
    assert not matches("{a}", "x" * 8193)
    assert time.thread_time() - began < 10
