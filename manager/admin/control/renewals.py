"""Recognises heartbeats that say nothing new, so that most of them need neither validation nor a new record.

A registered server sends one each second. Only the first of equal ones is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from manager.routing.state.registrations import HEARTBEAT_S, SUSPECT_AFTER_S

MAX_REMEMBERED: Final = 4096
"""Senders whose last heartbeat is kept. When there are more, all are forgotten, and parsed once again."""
TIMES: Final = {"ttlMs": round(SUSPECT_AFTER_S * 1000), "heartbeatMs": round(HEARTBEAT_S * 1000)}
"""In the answer to a heartbeat: when a silent server becomes suspect, and when to send the next one."""
_IGNORED: Final = "lastSeen"


class Renewals:
    """The last accepted heartbeat of each sender, and the function that renews a registration by its id.

    `renew` returns False if the registration needs a complete heartbeat.
    """

    def __init__(self, renew: Callable[[str], bool]) -> None:
        self._renew = renew
        self._last: dict[str, Mapping[str, Any]] = {}

    def renews(self, payload: Mapping[str, Any]) -> bool:
        """Renew the sender's registration if this heartbeat equals its last one; whether that was done."""
        sender = payload.get("sessionId")
        renewal = self._last.get(sender) if isinstance(sender, str) else None
        if renewal is None:
            return False
        meaning = _meaning(payload) if _IGNORED in payload else payload
        return meaning == renewal and self._renew(str(sender))

    def remember(self, payload: Mapping[str, Any]) -> None:
        """Note a heartbeat that was valid."""
        if len(self._last) >= MAX_REMEMBERED:
            self._last.clear()
        self._last[payload["sessionId"]] = _meaning(payload)


def _meaning(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The members that count: the sender's own time does not."""
    return {name: value for name, value in payload.items() if name != _IGNORED}
