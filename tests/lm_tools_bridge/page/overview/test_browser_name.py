"""Browsers are named as people name them."""

from __future__ import annotations

import pytest

from lm_tools_bridge.page.overview.browser_name import browser_name

_LIKE = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36"
)


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (_LIKE, "Chrome 156 on Linux"),
        (f"{_LIKE} Edg/156.0.1", "Edge 156 on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox 140 on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) Version/19.0 Safari/605.1", "Safari 19 on macOS"),
        ("curl/8", "curl/8"),
        ("", ""),
    ],
)
def test_a_browser_has_its_name_and_system(user_agent: str, name: str) -> None:
    assert browser_name(user_agent) == name
