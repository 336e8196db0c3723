"""Renders the heads of responses, and refusals as whole responses. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from lm_tools_bridge.http_server import response_head
from lm_tools_bridge.http_server.request_head import RequestHead
from manager.routing.request_heads.admission import ANSWER_HEADERS, AdmissionRefusal, refusal_body


def render_refusal(refusal: AdmissionRefusal, head: RequestHead | None) -> bytes:
    """Render a refusal as a whole response that closes the connection; without a body for HEAD."""
    method, target = (head.method, head.target) if head else ("", "")
    body = refusal_body(refusal, method, target)
    fields = [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
        *refusal.headers,
    ]
    rendered = render_head(refusal.status, fields)
    return rendered if method == "HEAD" else rendered + body


def render_head(status: int, fields: Iterable[tuple[str, str]]) -> bytes:
    """Render a head with the fields of every response.

    Raises:
        ValueError: a field has CR, LF or NUL in it.
    """
    return response_head.render_head(status, (*fields, *ANSWER_HEADERS))
