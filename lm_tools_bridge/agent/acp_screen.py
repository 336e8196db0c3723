"""Shows a conversation in an editor as updates of its session, in order, and asks the person there."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from acp import (
    RequestError,
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_tool_call,
    update_user_message_text,
)
from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AllowedOutcome,
    ContentToolCallContent,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    UserMessageChunk,
)
from pydantic import ValidationError

from lm_tools_bridge.agent.interaction import Box, Effect, Question, Tone
from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
)
from lm_tools_bridge.text.printable import printable

Update: TypeAlias = (
    AgentMessageChunk | AgentThoughtChunk | UserMessageChunk | ToolCallStart | ToolCallProgress
)


class Looks(Protocol):
    """Knows how a call is shown."""

    def kind(self, name: str) -> ToolKind:
        """What a tool does."""
        ...

    def locations(self, arguments: Mapping[str, Any] | None) -> list[ToolCallLocation]:
        """The files of a call."""
        ...


def sound(text: str) -> str:
    """Text without lone surrogates, which other parsers of JSON refuse."""
    return text.encode("utf-8", "replace").decode()


def sound_value(value: Any) -> Any:
    """A JSON value without lone surrogates."""
    return json.loads(sound(json.dumps(value, ensure_ascii=False, default=str)))


def said(text: str) -> AgentMessageChunk:
    """A piece of the reply."""
    return update_agent_message_text(sound(text))


def thought(text: str) -> AgentThoughtChunk:
    """A piece of what the model thinks aloud."""
    return update_agent_thought_text(sound(text))


def noticed(text: str, tone: Tone) -> AgentMessageChunk:
    """A line of the agent itself, as a quotation that stands apart from the reply."""
    mark = "" if tone is Tone.INFO else f"**{tone.value}:** "
    lines = printable(text, lines=True).replace("\n", "\n> ")
    return update_agent_message_text(f"\n\n> {mark}{lines}\n\n")


def content(lines: str) -> list[ContentToolCallContent]:
    """Text as the content of a call."""
    return [tool_content(text_block(sound(lines)))]


def call_made(call_id: str, name: str, arguments: Mapping[str, Any] | None, looks: Looks) -> ToolCallStart:
    """A call that does not run yet."""
    return start_tool_call(
        sound(call_id), printable(name), kind=looks.kind(name), status="pending",
        locations=looks.locations(arguments), raw_input=sound_value(arguments),
    )  # fmt: skip


def call_runs(call_id: str) -> ToolCallProgress:
    """A call that runs."""
    return update_tool_call(sound(call_id), status="in_progress")


def call_ended(call_id: str, text: str, *, failed: bool) -> ToolCallProgress:
    """A call with its result."""
    status: ToolCallStatus = "failed" if failed else "completed"
    return update_tool_call(sound(call_id), status=status, content=content(text))


def joined(first: Update, second: Update) -> Update | None:
    """Two pieces of the same text as one; None if they are something else."""
    match first, second:
        case (
            AgentMessageChunk(content=TextContentBlock(text=one)),
            AgentMessageChunk(content=TextContentBlock(text=two)),
        ):
            return update_agent_message_text(one + two)
        case (
            AgentThoughtChunk(content=TextContentBlock(text=one)),
            AgentThoughtChunk(content=TextContentBlock(text=two)),
        ):
            return update_agent_thought_text(one + two)
        case _:
            return None


def history(messages: Sequence[Message], looks: Looks) -> Iterator[Update]:
    """The updates that show a saved history again."""
    for message in messages:
        yield from _updates_of(message, looks)


def _updates_of(message: Message, looks: Looks) -> Iterable[Update]:
    match message:
        case UserMessage(text):
            return [update_user_message_text(sound(text))]
        case AssistantMessage(text, calls):
            replied: list[Update] = [said(text)] if text else []
            return [*replied, *(call_made(call.id, call.name, call.arguments, looks) for call in calls)]
        case ToolMessage(result):
            return [call_ended(result.call_id, result.text, failed=result.is_error)]
        case SystemMessage():
            return []


_WORDS: Final[Mapping[str, ToolKind]] = {
    "delete": "delete", "remove": "delete", "move": "move", "rename": "move", "write": "edit", "edit": "edit",
    "replace": "edit", "patch": "edit", "create": "edit", "search": "search", "find": "search",
    "grep": "search", "run": "execute", "execute": "execute", "command": "execute", "shell": "execute",
    "fetch": "fetch", "download": "fetch", "read": "read", "list": "read", "get": "read",
}  # fmt: skip
_CHANGES: Final = frozenset({"delete", "move", "edit", "execute"})
_FILES: Final = ("filePath", "file_path", "path", "file")
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def kind_of(name: str, tool: Tool | None) -> ToolKind:
    """The kind, by the first telling word of the name; a tool that says it only reads changes nothing."""
    words = [word.lower() for word in _WORD.findall(name)]
    kind = next((_WORDS[word] for word in words if word in _WORDS), None)
    if tool is not None and tool.annotations.get("readOnlyHint") is True:
        return "read" if kind is None or kind in _CHANGES else kind
    return kind or "other"


def locations_of(arguments: Mapping[str, Any] | None, workspace: Path) -> list[ToolCallLocation]:
    """The file that a call is about, which an editor can open."""
    for name in _FILES:
        value = (arguments or {}).get(name)
        if isinstance(value, str) and value and value.isprintable():
            return [ToolCallLocation(path=str(workspace / value))]
    return []


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
        self, outbox: Outbox, permission: AskPermission, cancel: Callable[[], None], looks: Looks
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
        self._outbox.put(said(text))

    def thinking(self, text: str) -> None:
        """Send a piece of what the model thinks."""
        self._outbox.put(thought(text))

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
            self._outbox.put(noticed(text, tone))

    def activity(self, text: str | None) -> None:
        """The first activity after a call tells that it runs; others are not shown."""
        if text is not None and self._call and not self._is_running:
            self._is_running = True
            self._outbox.put(call_runs(self._call))

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        """Send calls and their results."""
        if kind == "call":
            self._call, self._name, self._is_running = details["id"], details["name"], False
            self._outbox.put(call_made(self._call, self._name, details["arguments"], self._looks))
        elif kind == "result":
            failed = bool(details.get("isError"))
            self._outbox.put(call_ended(details["callId"], details["content"], failed=failed))
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
            tool_call_id=sound(self._call or f"question-{self._questions}"),
            title=self._name or "A server asks",
            kind=self._looks.kind(self._name) if self._name else None,
            status="in_progress" if self._is_running else "pending",
            content=content("\n".join(subjects)),
        )


Send = Callable[[Update], Awaitable[None]]


class Outbox:
    """The updates that are still to be sent. Pieces of a text become one while the editor does not read.

    Args:
        send: may raise ConnectionError.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: deque[Update] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_open = False

    def open(self) -> None:
        """Begin to send; before, the editor does not know the session."""
        self._is_open = True
        self._start()

    def put(self, update: Update) -> None:
        """Send an update after those before it."""
        whole = joined(self._waiting[-1], update) if self._waiting else None
        if whole is None:
            self._waiting.append(update)
        else:
            self._waiting[-1] = whole
        self._start()

    async def flush(self) -> None:
        """Wait until everything is sent."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    def close(self) -> None:
        """Send nothing any more."""
        self._is_open = False
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        if self._is_open and self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run(), name="updates")

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._send(self._waiting.popleft())
        except ConnectionError:
            self._is_open = False
            self._waiting.clear()
