"""Renders the heads of responses as bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Protocol

Fields = tuple[tuple[str, str], ...]
CACHED: Final = 1024
"""Heads that are kept: responses to one client mostly differ in their bodies alone."""


def render_head(status: int, fields: Iterable[tuple[str, str]]) -> bytes:
    """Render a whole head, the empty line at its end included.

    Raises:
        ValueError: a field has CR, LF or NUL in it.
    """
    lines = [f"{name}: {value}" for name, value in fields]
    head = "\r\n".join([f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *lines])
    if head.count("\n") != len(lines) or head.count("\r") != len(lines) or "\0" in head:
        raise ValueError("CR, LF or NUL in the head of a response")
    return head.encode("latin-1") + b"\r\n\r\n"


class FixedLines(Protocol):
    """Renders the lines of a head that equal responses share; the result is cached."""

    def __call__(self, status: int, kind: str | None, fields: Fields, *, is_last: bool) -> bytes:
        """Render status line and fields, without the last line end, `Content-Length` and `Date`.

        Args:
            status: of HTTP.
            kind: the content type; None where there is no body.
            fields: further header fields.
            is_last: whether the connection closes behind the response.

        Raises:
            ValueError: a field has CR, LF or NUL in it.
        """


def fixed_lines(standard: Fields) -> FixedLines:
    """Make the renderer of a server that sends these fields with every response."""

    @lru_cache(maxsize=CACHED)
    def render(status: int, kind: str | None, fields: Fields, *, is_last: bool) -> bytes:
        content_type = () if kind is None else (("Content-Type", kind),)
        closes = (("Connection", "close"),) if is_last else ()
        return render_head(status, (*content_type, *fields, *closes, *standard)).removesuffix(b"\r\n\r\n")

    return render
