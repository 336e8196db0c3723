"""Knows which calls of all workspaces wait for a person, as their servers report them on the lifelines.

The server of a workspace decides which answer came first. Here the calls are shown, and sessions are told of
an answer from elsewhere. Nothing survives the manager.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from protocol import jsonrpc, names
from protocol.internal.request_state import SHORT_ID

MOST_CALLS: Final = 64
"""Calls of a server that are known; a server does not let more wait."""
MAX_QUESTION: Final = 5000
"""Longest question that is shown, in characters; servers cut theirs before."""
MOST_ENDED: Final = 128
"""Calls that no longer wait and of which is still known how that came."""
MAX_NAME: Final = 200
"""Longest name of a tool or client that is shown, in characters."""
UNKNOWN_END: Final = "it no longer waits: its client answered, or its call ended"


class ReportedApproval(msgspec.Struct, frozen=True):
    """A call as its server reports it; times are in seconds since 1970.

    Attributes:
        question: the tool and its arguments.
        waits: whether the call waits in its server; else its client was asked, and repeats it.
        approved: the answer from elsewhere, which a call that does not wait has not taken yet.
    """

    id: str
    tool: str
    client: str
    question: str
    since: float
    until: float
    waits: bool
    approved: bool | None = None


class WaitingCall(msgspec.Struct, frozen=True):
    """A call that waits for an answer, and its project.

    Attributes:
        call: what is shown of it.
        reported: the call as its server reported it.
    """

    workspace: str
    root: str
    call: ReportedApproval
    reported: ReportedApproval

    def is_about(self, other: ReportedApproval) -> bool:
        """Whether a report is about this call, and not about another one with its id."""
        mine = self.reported
        return (mine.tool, mine.client, mine.question) == (other.tool, other.client, other.question)

    def as_json(self, *, with_question: bool) -> dict[str, Any]:
        """What is shown. The question contains arguments."""
        shown = {
            "id": self.call.id,
            "tool": self.call.tool,
            "client": self.call.client or None,
            "workspace": self.workspace,
            "root": self.root,
            "since": int(self.call.since * 1000),
            "until": int(self.call.until * 1000),
            "waits": self.call.waits,
        }
        return {**shown, "question": self.call.question} if with_question else shown


def _is_named(identity: str, given: str) -> bool:
    return identity == given or (len(given) >= SHORT_ID and identity.startswith(given))


_reports: Final = msgspec.json.Decoder(dict[str, list[ReportedApproval]])


def _as_it_is(text: str) -> tuple[str, int]:
    return text, 0


class ApprovalBoard:
    """The calls that wait for a person.

    Args:
        redact: hides secrets in a question, and says how many.

    Attributes:
        changes: how often servers reported something.
    """

    def __init__(self, redact: Callable[[str], tuple[str, int]] = _as_it_is) -> None:
        self.changes = 0
        self._redact = redact
        self._reported: dict[str, dict[str, WaitingCall]] = {}
        self._watched: dict[str, asyncio.Future[None]] = {}
        self._ended: deque[tuple[str, str]] = deque(maxlen=MOST_ENDED)

    # -- reports of servers -----------------------------------------------------------------------------

    def report(self, instance: str, workspace: str, root: str, message: bytes) -> None:
        """Take a notification of a server. It names all of its calls; others end. Unknown ones are ignored.

        Args:
            instance: the run of the server.
        """
        members = jsonrpc.members_of(message)
        if jsonrpc.text_of(members.get("method", b"")) != names.APPROVALS:
            return
        try:
            reported = _reports.decode(members.get("params", b"{}")).get("approvals", [])[:MOST_CALLS]
        except (msgspec.DecodeError, RecursionError):
            return
        before = self._reported.get(instance, {})
        now: dict[str, WaitingCall] = {}
        for one in reported:
            known = before.get(one.id)
            is_answered = one.approved is not None
            if known is None or not known.is_about(one) or (is_answered and known.call.approved is None):
                known = self._shown(workspace, root, one)
            now[one.id] = known
            if is_answered:
                self._tell(one.id)
        self._replace(instance, now)

    def forget(self, instance: str) -> None:
        """Remove the calls of a server that is gone."""
        self._replace(instance, {})

    def _replace(self, instance: str, now: Mapping[str, WaitingCall]) -> None:
        self.changes += 1
        before = self._open(self._reported.pop(instance, {}))
        if now:
            self._reported[instance] = dict(now)
        for identity in before.keys() - self._open(now).keys():
            self._end(identity, UNKNOWN_END)

    def _shown(self, workspace: str, root: str, one: ReportedApproval) -> WaitingCall:
        hidden = msgspec.structs.replace(
            one,
            tool=one.tool[:MAX_NAME],
            client=one.client[:MAX_NAME],
            question=self._question(one.question),
        )
        return WaitingCall(workspace, root, hidden, one)

    def _question(self, text: str) -> str:
        """The question without secrets. It says what it hides: a person must not approve that unseen."""
        shown, hidden = self._redact(text[:MAX_QUESTION])
        cut = len(text) - MAX_QUESTION
        notes = [f"… {cut} more characters are NOT shown; deny if in doubt"] if cut > 0 else []
        if hidden:
            are = "1 value is" if hidden == 1 else f"{hidden} values are"
            notes.append(f"{are} not shown; deny if in doubt")
        return "\n".join([shown, *notes])

    @staticmethod
    def _open(calls: Mapping[str, WaitingCall]) -> dict[str, WaitingCall]:
        return {identity: one for identity, one in calls.items() if one.call.approved is None}

    # -- people -------------------------------------------------------------------------------------------

    def waiting(self) -> list[WaitingCall]:
        """The calls that can be answered, the oldest first."""
        found = [one for calls in self._reported.values() for one in self._open(calls).values()]
        return sorted(found, key=lambda one: one.call.since)

    def as_json(self, wall: float) -> list[dict[str, Any]]:
        """The same for the status: without arguments, with ages at `wall`, in seconds since 1970."""
        return [
            {**one.as_json(with_question=False), "ageSec": max(0, int(wall - one.call.since))}
            for one in self.waiting()
        ]

    def find(self, identity: str) -> WaitingCall | None:
        """The call with this id, if it can be answered. An id may be shortened, if one call has it."""
        found = [one for one in self.waiting() if _is_named(one.call.id, identity)]
        return found[0] if len(found) == 1 else None

    def how_ended(self, identity: str) -> str | None:
        """How it came that a call no longer waits; None if it is unknown."""
        return next((how for one, how in reversed(self._ended) if _is_named(one, identity)), None)

    def ended(self) -> list[dict[str, str]]:
        """The last calls that no longer wait, and how that came."""
        return [{"id": identity, "how": how} for identity, how in self._ended]

    def note_answer(self, identity: str, how: str, *, approved: bool) -> None:
        """Note an answer that counts, and how it was given: the call does not wait any more."""
        for calls in self._reported.values():
            one = calls.get(identity)
            if one is not None and one.call.approved is None:
                answered = msgspec.structs.replace(one.call, approved=approved)
                calls[identity] = msgspec.structs.replace(one, call=answered)
                self._end(identity, how)
                self._tell(identity)
                return
        for place, (known, _) in enumerate(self._ended):  # its server was quicker
            if known == identity:
                self._ended[place] = identity, how

    def _end(self, identity: str, how: str) -> None:
        self.changes += 1
        self._ended.append((identity, how))

    # -- sessions -------------------------------------------------------------------------------------------

    def watch(self, identity: str) -> asyncio.Future[None]:
        """A future that is done when a call was answered elsewhere than in its client. `unwatch` ends it."""
        told = self._watched.setdefault(identity, asyncio.get_running_loop().create_future())
        reported = (calls.get(identity) for calls in self._reported.values())
        if any(one is not None and one.call.approved is not None for one in reported):
            self._tell(identity)
        return told

    def unwatch(self, identity: str) -> None:
        """End a watch. Idempotent."""
        told = self._watched.pop(identity, None)
        if told is not None:
            told.cancel()

    def _tell(self, identity: str) -> None:
        told = self._watched.get(identity)
        if told is not None and not told.done():
            told.set_result(None)
