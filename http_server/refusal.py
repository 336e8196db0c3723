"""An answer that is given instead of serving, as a value. Which rules there are, says whoever has a door."""

from __future__ import annotations

from dataclasses import dataclass

from protocol import jsonrpc


@dataclass(frozen=True, slots=True)
class AdmissionRefusal:
    """An answer given instead of serving: HTTP status, a sentence that says what to do, and the JSON-RPC code
    for requests that expect one."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...] = ()
    code: int = jsonrpc.INVALID_REQUEST


def body_too_large(cap: int) -> AdmissionRefusal:
    """The refusal of a body over `cap` bytes."""
    return AdmissionRefusal(413, f"the body is larger than {cap:,} bytes; send less at once")
