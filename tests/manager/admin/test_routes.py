"""Tests of the page that shows the log."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from manager.admin.routes import POLICY, render


class Page(HTMLParser):
    """The tags of a page, and the text of its `pre`."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.shown = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] == ["pre"]:
            self.shown += data


PLAIN = ["html", "head", "meta", "title", "meta", "style", "body", "main", "pre"]


@pytest.mark.parametrize(
    "line",
    ["folder=/srv/<img src=x onerror=alert(1)>", "</pre><script>alert(1)</script>", "a & b &lt; \"c\" 'd'"],
)
def test_markup_in_lines_is_text(line: str) -> None:
    page = Page(render(["first", line]))
    assert page.tags == PLAIN
    assert page.shown.strip() == f"first\n{line}"


def test_an_empty_log_says_so() -> None:
    assert Page(render([])).shown.strip() == "Nothing was logged yet."


def test_the_policy_of_the_page_allows_its_style_alone() -> None:
    (style,) = re.findall("<style>(.*)</style>", render([]))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    sources = dict(one.strip().split(" ", 1) for one in POLICY.split(";"))
    assert sources["default-src"] == "'none'"
    assert sources["style-src"] == f"'sha256-{digest}'"
    assert set(sources) == {"default-src", "style-src", "frame-ancestors", "base-uri", "form-action"}
