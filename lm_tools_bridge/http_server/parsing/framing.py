"""Admission rules about framing: `Content-Length`, `Transfer-Encoding` and `Expect`. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from lm_tools_bridge.http_server.refusal import AdmissionRefusal, body_too_large


def refuse_framing(fields: Mapping[bytes, bytes], body_cap: int) -> AdmissionRefusal | None:
    """Return the refusal of the first rule that is broken; None if none is.

    Args:
        fields: values by lower-case name; repeated fields are joined with `, `.
        body_cap: the most bytes of a body.
    """
    length = fields.get(b"content-length")
    if length is not None:
        if not length.isdigit() or b"transfer-encoding" in fields:
            return AdmissionRefusal(
                400, "send one plain Content-Length, or Transfer-Encoding: chunked, not both"
            )
        # The digits are counted first: int() raises ValueError for thousands of them.
        if len(length.lstrip(b"0")) > 18 or int(length) > body_cap:
            return body_too_large(body_cap)
    if fields.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
        return AdmissionRefusal(400, "the only Transfer-Encoding understood is chunked")
    if fields.get(b"expect", b"100-continue").lower() != b"100-continue":
        return AdmissionRefusal(417, "the only expectation understood is 100-continue")
    return None
