"""Renders the last log lines as a page for browsers: self-contained, escaped, without script. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from typing import Final

REFRESH_S: Final = 5
_STYLE: Final = (
    ":root{color-scheme:light dark}body{margin:0}"
    # reversed, so that a browser shows the end of the log first
    "main{display:flex;flex-direction:column-reverse;height:100vh;overflow:auto}"
    "pre{margin:0;padding:1em;white-space:pre-wrap;overflow-wrap:anywhere}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""The page's `Content-Security-Policy`: it loads and runs nothing."""


def render(lines: Iterable[str]) -> str:
    """The page with these lines, oldest first."""
    shown = escape("\n".join(lines)) or "Nothing was logged yet."
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Log of LM Tools Bridge</title>'
        f'<meta http-equiv="refresh" content="{REFRESH_S}"><style>{_STYLE}</style></head>'
        f"<body><main><pre>{shown}</pre></main></body></html>\n"
    )
