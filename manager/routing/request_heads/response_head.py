"""The heads of answers, and refusals as whole answers, as bytes."""

from __future__ import annotations

from collections.abc import Iterable

from http_server import response_head
from http_server.head import RequestHead
from manager.routing.request_heads.admission import ANSWER_HEADERS, AdmissionRefusal, refusal_body


def render_refusal(refusal: AdmissionRefusal, facts: RequestHead | None) -> bytes:
    """The whole answer as bytes; it announces that the connection closes. HEAD gets no body."""
    method, target = (facts.method, facts.target) if facts else ("", "")
    body = refusal_body(refusal, method, target)
    fields = [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
        *refusal.headers,
    ]
    head = render_head(refusal.status, fields)
    return head if method == "HEAD" else head + body


def render_head(status: int, fields: Iterable[tuple[str, str]]) -> bytes:
    """The head of an answer, with what every answer of ours says.

    Raises:
        ValueError: a field would break the head apart.
    """
    return response_head.render_head(status, (*fields, *ANSWER_HEADERS))
