"""Knows which calls of all workspaces wait for a person, as their servers report them on the lifelines.

The server of a workspace decides which answer came first. Here the calls are shown, answers are taken to the
servers, and sessions are told of an answer from elsewhere. The managers on other hosts report those there.
Nothing survives the manager.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.internal.request_state import SHORT_ID
from manager.status_reading import json_object
from manager.waiting_calls import UNKNOWN_END, AnswerResult, ReportedApproval, ReportedCall

if TYPE_CHECKING:
    from manager.admin.control.services import Services


BEFORE_ID: Final = ":"
"""Between the name of a host and the id that a call has there. No id contains it."""


class WaitingCall(msgspec.Struct, frozen=True):
    """A call that waits for an answer, and its project.

    Attributes:
        call: what is shown of it; its id names it here.
        reported: the call as its server reported it; its id names it there.
        host: the name that the user gave the project's host; None for this machine.
    """

    workspace: str
    root: str
    call: ReportedApproval
    reported: ReportedApproval
    host: str | None = None

    def is_about(self, other: ReportedApproval) -> bool:
        """Whether a report is about this call, and not about another one with its id."""
        mine = self.reported
        return (mine.tool, mine.client, mine.question) == (other.tool, other.client, other.question)

    def is_named(self, text: str) -> bool:
        """Whether a person means this call: by its id, or by the beginning of it.

        The id of a call on another host begins with the host's name, so that no host can have another call
        meant than one of its own.
        """
        host, _, _ = text.rpartition(BEFORE_ID)
        return host == (self.host or "") and is_named(self.call.id, text)

    def as_json(self, *, with_question: bool) -> dict[str, Any]:
        """What is shown. The question contains arguments."""
        row = {
            "id": self.call.id,
            "tool": self.call.tool,
            "client": self.call.client or None,
            "workspace": self.workspace,
            "root": self.root,
            "host": self.host,
            "since": int(self.call.since * 1000),
            "until": int(self.call.until * 1000),
            "waits": self.call.waits,
        }
        return {**row, "question": self.call.question} if with_question else row


def is_named(identity: str, text: str) -> bool:
    """Whether a text is an id, or its beginning behind the name of the same host."""
    host, _, mine = identity.rpartition(BEFORE_ID)
    named_host, _, beginning = text.rpartition(BEFORE_ID)
    is_long_enough = len(beginning) >= SHORT_ID
    return host == named_host and (beginning == mine or (is_long_enough and mine.startswith(beginning)))


def id_here(host: str | None, identity: str) -> str:
    """The id by which a call is named here."""
    return identity if host is None else f"{host}{BEFORE_ID}{identity}"


MOST_CALLS: Final = 64
"""Calls of a server that are known: ours let no more wait, but another server may claim more."""
MAX_QUESTION: Final = 5000
"""Longest question that is shown, in characters: above the 4,000 at which servers cut theirs."""
MAX_LINES: Final = 1000
"""Most lines of a question that are shown: thousands of empty ones would push the rest off the screen."""
MOST_ENDED: Final = 128
"""Calls of each host whose end is remembered: twice as many as wait, for people who answer late."""
MAX_NAME: Final = 200
"""Longest name of a tool or client that is shown, in characters, so that a name cannot hide the question."""
_reports: Final = msgspec.json.Decoder(dict[str, list[ReportedApproval]])


def _as_it_is(text: str) -> tuple[str, int]:
    return text, 0


class ApprovalBoard:
    """The calls that wait for a person; `WaitingCalls`.

    Args:
        redact: hides secrets in a question, and says how many.
        wait_s: seconds that a call waits here for an answer if its client cannot be asked; 0 refuses it.

    Attributes:
        changes: how often servers reported something.
        services: takes answers to the servers. The daemon sets it before it serves requests.
    """

    def __init__(self, redact: Callable[[str], tuple[str, int]] = _as_it_is, wait_s: float = 0.0) -> None:
        self.changes = 0
        self.wait_s = wait_s
        self.services: Services | None = None
        self._redact = redact
        self._reported: dict[str, dict[str, WaitingCall]] = {}
        self._watched: dict[str, asyncio.Future[None]] = {}
        self._ended: dict[str | None, deque[tuple[str, str]]] = {}
        self._listeners: set[Callable[[], None]] = set()

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
        self.report_calls(instance, None, [ReportedCall(workspace, root, approval) for approval in reported])

    def report_calls(self, instance: str, host: str | None, reported: Sequence[ReportedCall]) -> None:
        """Take what the server of a project, or the manager on another host, says of all of its calls.

        Args:
            instance: the run of the server, or the line to the host.
            host: the name that the user gave the host; None for this machine.
        """
        before = self._reported.get(instance, {})
        now: dict[str, WaitingCall] = {}
        for row in reported:
            approval = row.call
            waiting = before.get(approval.id)
            is_answered = approval.approved is not None
            is_known = waiting is not None and waiting.is_about(approval)
            if waiting is None or not is_known or (is_answered and waiting.call.approved is None):
                waiting = self._show(host, row)
            now[approval.id] = waiting
            if is_answered:
                self._tell(approval.id)
        self._replace(instance, now)

    def forget(self, instance: str) -> None:
        """Remove the calls of a server that is gone."""
        self._replace(instance, {})

    def _replace(self, instance: str, now: Mapping[str, WaitingCall]) -> None:
        before = self._open(self._reported.pop(instance, {}))
        if now:
            self._reported[instance] = dict(now)
        for identity in before.keys() - self._open(now).keys():
            self._end(before[identity], UNKNOWN_END)
        self._changed()

    def _show(self, host: str | None, row: ReportedCall) -> WaitingCall:
        hidden = msgspec.structs.replace(
            row.call,
            id=id_here(host, row.call.id),
            tool=row.call.tool[:MAX_NAME],
            client=row.call.client[:MAX_NAME],
            question=self._question(row.call.question),
        )
        return WaitingCall(row.workspace, row.root, hidden, row.call, host)

    def _question(self, text: str) -> str:
        """The question without secrets. It says what it hides: a person must not approve that unseen."""
        question, hidden = self._redact(text[:MAX_QUESTION])
        lines = question.split("\n")
        cut = len(text) - MAX_QUESTION
        notes = [f"… {cut} more characters are NOT shown; deny if in doubt"] if cut > 0 else []
        if len(lines) > MAX_LINES:
            notes.append(f"… {len(lines) - MAX_LINES} more lines are NOT shown; deny if in doubt")
        if hidden:
            are = "1 value is" if hidden == 1 else f"{hidden} values are"
            notes.append(f"{are} not shown; deny if in doubt")
        return "\n".join([*lines[:MAX_LINES], *notes])

    @staticmethod
    def _open(calls: Mapping[str, WaitingCall]) -> dict[str, WaitingCall]:
        return {identity: waiting for identity, waiting in calls.items() if waiting.call.approved is None}

    def _all_calls(self) -> Iterator[WaitingCall]:
        return chain.from_iterable(calls.values() for calls in self._reported.values())

    def reports(self) -> list[WaitingCall]:
        """All calls of this machine, also those that are answered, for a manager on another host."""
        return [waiting for waiting in self._all_calls() if waiting.host is None]

    # -- people -------------------------------------------------------------------------------------------

    def waiting(self) -> list[WaitingCall]:
        """The calls that can be answered: those of this machine first, and the oldest first."""
        open_calls = [waiting for waiting in self._all_calls() if waiting.call.approved is None]
        return sorted(open_calls, key=lambda waiting: (waiting.host is not None, waiting.call.since))

    def as_json(self, wall: float) -> list[dict[str, Any]]:
        """The same for the status: without arguments, with ages at `wall`, in seconds since 1970."""
        return [
            {**waiting.as_json(with_question=False), "ageSec": max(0, int(wall - waiting.call.since))}
            for waiting in self.waiting()
        ]

    def questions(self) -> list[dict[str, Any]]:
        """The same with arguments and without ages, for the person who answers."""
        return [waiting.as_json(with_question=True) for waiting in self.waiting()]

    def find(self, identity: str) -> WaitingCall | None:
        """The call with this id, if it can be answered. An id may be shortened, if one call has it."""
        matches = [waiting for waiting in self.waiting() if waiting.is_named(identity)]
        return matches[0] if len(matches) == 1 else None

    async def answer(self, identity: str, *, approve: bool, where: str) -> AnswerResult:
        """Answer a call that waits; the first answer counts.

        Args:
            where: where the person answered, such as "on the page".
        """
        waiting = self.find(identity)
        if waiting is None or self.services is None:
            return self._gone(identity)
        identity = waiting.call.id
        subject = f"{waiting.reported.id}.{'yes' if approve else 'no'}"
        reply = await self.services.ask_server(waiting.root, "answer_approval", subject)
        if isinstance(reply, Refusal):
            if reply.delivered == "unknown":
                text = f"It is unknown whether this answer counts: {reply.message}."
                return AnswerResult(False, "unknown", text)
            return AnswerResult(False, "gone", f"Nothing was changed: {reply.message}.")
        outcome = str((json_object(reply) or {}).get("outcome"))
        if outcome not in {"approved", "denied"}:
            return self._gone(identity)
        self.note_answer(identity, f"{outcome} {where}", approved=approve)
        row = waiting.as_json(with_question=False)
        return AnswerResult(True, outcome, _effect(waiting, approve=approve), row)

    def _gone(self, identity: str) -> AnswerResult:
        how = self.how_ended(identity) or UNKNOWN_END
        return AnswerResult(False, "gone", f"Nothing was changed: {how}.")

    def how_ended(self, identity: str) -> str | None:
        """How it came that a call no longer waits; None if it is unknown."""
        ends = (end for host_ends in self._ended.values() for end in reversed(host_ends))
        return next((how for ended_id, how in ends if is_named(ended_id, identity)), None)

    def list_ended(self) -> list[dict[str, str]]:
        """The last calls that no longer wait, and how that came."""
        return [{"id": identity, "how": how} for ends in self._ended.values() for identity, how in ends]

    def note_answer(self, identity: str, how: str, *, approved: bool) -> None:
        """Note an answer that counts, and how it was given: the call does not wait any more."""
        for calls in self._reported.values():
            for name, waiting in calls.items():
                if waiting.call.id == identity and waiting.call.approved is None:
                    answered = msgspec.structs.replace(waiting.call, approved=approved)
                    calls[name] = msgspec.structs.replace(waiting, call=answered)
                    self._end(waiting, how)
                    self._tell(name)
                    self._changed()
                    return
        for ends in self._ended.values():
            for place, (ended_id, _) in enumerate(ends):  # its server was quicker
                if ended_id == identity:
                    ends[place] = identity, how

    def _end(self, waiting: WaitingCall, how: str) -> None:
        self._ended.setdefault(waiting.host, deque(maxlen=MOST_ENDED)).append((waiting.call.id, how))

    # -- listeners ------------------------------------------------------------------------------------------

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change. Returns a function that removes it."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _changed(self) -> None:
        self.changes += 1
        for listener in tuple(self._listeners):
            listener()

    # -- sessions -------------------------------------------------------------------------------------------

    def watch(self, identity: str) -> asyncio.Future[None]:
        """A future that is done when a call was answered elsewhere than in its client. `unwatch` ends it."""
        answer = self._watched.setdefault(identity, asyncio.get_running_loop().create_future())
        reported = (calls.get(identity) for calls in self._reported.values())
        if any(waiting is not None and waiting.call.approved is not None for waiting in reported):
            self._tell(identity)
        return answer

    def unwatch(self, identity: str) -> None:
        """End a watch. Idempotent."""
        answer = self._watched.pop(identity, None)
        if answer is not None:
            answer.cancel()

    def _tell(self, identity: str) -> None:
        answer = self._watched.get(identity)
        if answer is not None and not answer.done():
            answer.set_result(None)


def _effect(call: WaitingCall, *, approve: bool) -> str:
    tool = call.call.tool if call.host is None else f"{call.call.tool} on {call.host}"
    if not approve:
        return f"{tool} was denied."
    if call.call.waits:
        return f"{tool} was approved, once."
    return f"{tool} was approved, once; it runs when its client sends the call again."
