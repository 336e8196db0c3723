"""The heads of answers as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus


def render_head(status: int, fields: Iterable[tuple[str, str]]) -> bytes:
    """The head of an answer, the empty line at its end included.

    Raises:
        ValueError: a field would break the head apart.
    """
    lines = [f"{name}: {value}" for name, value in fields]
    head = "\r\n".join([f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *lines])
    if head.count("\n") != len(lines) or head.count("\r") != len(lines) or "\0" in head:
        raise ValueError("CR, LF or NUL in the head of an answer")
    return head.encode("latin-1") + b"\r\n\r\n"
