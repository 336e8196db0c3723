"""Words a progress notification of a server as one line. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from lm_tools_bridge.text.printable import printable

_LONGEST: Final = 200


def progress_text(params: bytes) -> str:
    """`message (3/10)` from the parameters of `notifications/progress`, as far as they are there."""
    try:
        members: Any = msgspec.json.decode(params or b"{}")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""
    if not isinstance(members, dict):
        return ""
    progress, total = members.get("progress"), members.get("total")
    message = members.get("message")
    count = (
        ""
        if not _is_number(progress)
        else f"{progress:g}/{total:g}"
        if _is_number(total)
        else f"{progress:g}"
    )
    if not isinstance(message, str) or not message:
        return count
    text = printable(message, width=_LONGEST)
    return f"{text} ({count})" if count else text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
