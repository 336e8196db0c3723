"""Shows a conversation in an editor, and asks there: the `Screen` of the Agent Client Protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from acp import RequestError
from acp.schema import (
    AllowedOutcome,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionResponse,
    ToolCallUpdate,
)
from pydantic import ValidationError

from lm_tools_bridge.agent.acp import updates
from lm_tools_bridge.agent.acp.outbox import Outbox
from lm_tools_bridge.agent.interaction import Box, Effect, Question, Tone

_NO_LINE: Final = 'the question "{}" was declined: an editor has no line to answer it in; lmtb agent does'
AskPermission = Callable[[ToolCallUpdate, list[PermissionOption]], Awaitable[RequestPermissionResponse]]
_KINDS: Final[Mapping[Effect, PermissionOptionKind]] = {
    Effect.ONCE: "allow_once", Effect.ALWAYS: "allow_always", Effect.NO: "reject_once",
}  # fmt: skip


class EditorScreen:
    """The person in front of an editor.

    Calls run one at a time, so what is told between a call and its result belongs to that call.

    Args:
        outbox: sends what is shown.
        permission: asks the person to choose.
        cancel: cancels the turn.
        looks: how calls are shown.

    Attributes:
        problem: the last error, which is not sent.
    """

    def __init__(
        self, outbox: Outbox, permission: AskPermission, cancel: Callable[[], None], looks: updates.Looks
    ) -> None:
        self._outbox = outbox
        self._permission = permission
        self._cancel = cancel
        self._looks = looks
        self._call = ""
        self._name = ""
        self._is_running = False
        self._asked: list[str] = []
        self._questions = 0
        self.problem = ""

    def reply_text(self, text: str) -> None:
        """Send a piece of the reply."""
        self._outbox.put(updates.said(text))

    def thinking(self, text: str) -> None:
        """Send a piece of what the model thinks."""
        self._outbox.put(updates.thought(text))

    def reply_ended(self) -> None:
        """Nothing: the next call or the response tells it."""

    def box(self, kind: Box, lines: Sequence[str]) -> None:
        """Keep what the next question is about; calls and results are sent as such."""
        if kind is Box.GUARD:
            self._asked = list(lines)

    def lines(self, lines: Sequence[str]) -> None:
        """Send lines as one notice."""
        self.notice("\n".join(lines))

    def notice(self, text: str, tone: Tone = Tone.INFO) -> None:
        """Send a line of the agent itself. Errors end a turn, and are its response."""
        if tone is Tone.ERROR:
            self.problem = text
        else:
            self._outbox.put(updates.noticed(text, tone))

    def activity(self, text: str | None) -> None:
        """The first activity after a call tells that it runs; others are not shown."""
        if text is not None and self._call and not self._is_running:
            self._is_running = True
            self._outbox.put(updates.call_runs(self._call))

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        """Send calls and their results."""
        if kind == "call":
            self._call, self._name, self._is_running = details["id"], details["name"], False
            self._outbox.put(updates.call_made(self._call, self._name, details["arguments"], self._looks))
        elif kind == "result":
            failed = bool(details.get("isError"))
            self._outbox.put(updates.call_ended(details["callId"], details["content"], failed=failed))
            self._call = self._name = ""

    async def ask(self, question: Question) -> str | None:
        """Let the person choose; None if the question has no choices, since an editor has no input line.

        If the editor says that the turn was cancelled, it is.
        """
        subjects, self._asked = [*self._asked, *([question.subject] if question.subject else [])], []
        if not question.choices:
            self.notice(_NO_LINE.format(question.prompt.strip(" :")), Tone.WARNING)
            return None
        options = [
            PermissionOption(option_id=choice.answer, name=choice.text, kind=_KINDS[choice.effect])
            for choice in question.choices
        ]
        await self._outbox.flush()
        try:
            response = await self._permission(self._subject(subjects), options)
        except (RequestError, ValidationError, ConnectionError):
            return None
        if not isinstance(response.outcome, AllowedOutcome):
            self._cancel()
            await asyncio.sleep(0)  # ends here if it is the turn that asks
            return None
        option = response.outcome.option_id
        return option if option in {choice.answer for choice in question.choices} else None

    async def next_input(self, state: str) -> str | None:
        """There is no input beside prompts."""
        return None

    def close(self) -> None:
        """Send nothing any more."""
        self._outbox.close()

    def _subject(self, subjects: Sequence[str]) -> ToolCallUpdate:
        """The call that a question is about; one of its own if no call runs."""
        self._questions += 1
        return ToolCallUpdate(
            tool_call_id=updates.sound(self._call or f"question-{self._questions}"),
            title=self._name or "A server asks",
            kind=self._looks.kind(self._name) if self._name else None,
            status="in_progress" if self._is_running else "pending",
            content=updates.content("\n".join(subjects)),
        )
