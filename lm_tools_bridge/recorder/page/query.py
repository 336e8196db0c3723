"""Reads the filters of the pages of recorded calls from their address, and writes them into links. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from lm_tools_bridge.page.html import CALLS_PATH
from lm_tools_bridge.recorder.call_filter import Filter
from lm_tools_bridge.text.quantities import moment_of

CALL_PATH: Final = "/page/call"
FIGURES_PATH: Final = f"{CALLS_PATH}/figures"
SLOW_MS: Final = 1000.0
"""Milliseconds that the form suggests for slow calls."""
FIELDS: Final = ("client", "project", "tool", "session", "since", "slow", "errors")
"""The names of the form's fields, as options of `lmtb calls`."""
MAX_FIELD: Final = 300
"""Characters of a field; a longer one is refused."""
_MAX_ID: Final = 2**53
_LAST_MS: Final = 2**53


@dataclass(frozen=True, slots=True)
class CallQuery:
    """What a page of recorded calls was asked for.

    Attributes:
        given: the fields as they were typed, without empty ones.
        wanted: the calls that are shown.
        problem: why a field cannot be used; None if all can.
    """

    given: Mapping[str, str]
    wanted: Filter
    problem: str | None = None


def read_query(query: Mapping[str, str], now_s: float) -> CallQuery:
    """Read the fields of a form.

    Args:
        query: the parameters of the address.
        now_s: seconds since 1970.
    """
    fields = {name: text for name in FIELDS if (text := query.get(name, "").strip())}
    long = next((name for name, text in fields.items() if len(text) > MAX_FIELD), None)
    if long is not None:
        return CallQuery({}, Filter(), f"The field {long} is longer than {MAX_FIELD} characters.")
    since = moment_of(fields["since"], now_s) if "since" in fields else None
    if "since" in fields and since is None:
        return CallQuery(fields, Filter(), "Since is a length of time such as 30m, 2h or 3d, or a date.")
    slow = _slow_us(fields["slow"]) if "slow" in fields else None
    if "slow" in fields and slow is None:
        return CallQuery(fields, Filter(), "Slower than is a number of milliseconds, such as 1000.")
    wanted = Filter(
        client=fields.get("client"),
        project=fields.get("project"),
        tool=fields.get("tool"),
        session=fields.get("session"),
        errors="errors" in fields,
        slower_than_us=slow,
        since_ms=None if since is None else max(-_LAST_MS, min(since, _LAST_MS)),
        before=call_number(query.get("before", "")),
    )
    return CallQuery(fields, wanted)


def call_number(text: str) -> int | None:
    """The id of a call in an address; None if it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        return None
    number = int(text)
    return number if 0 < number < _MAX_ID else None


def address(path: str, fields: Mapping[str, object], **more: object) -> str:
    """The address of a page with these fields."""
    fields = {name: str(value) for name, value in {**fields, **more}.items()}
    return f"{path}?{urlencode(fields, errors='surrogatepass')}" if fields else path


def _slow_us(text: str) -> int | None:
    try:
        milliseconds = float(text)
    except ValueError:
        return None
    return round(milliseconds * 1000) if 0 <= milliseconds <= 1e9 else None
