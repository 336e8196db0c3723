"""Asks the person what the server of a running call wants to know: approvals, forms, pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from lm_tools_bridge.agent.interaction import NO, Box, Choice, Effect, Interaction, Question, Tone
from lm_tools_bridge.text.form_fields import Field, InvalidLine, fields
from lm_tools_bridge.text.printable import printable, printable_lines


@dataclass(slots=True)
class RunningCall:
    """One tool call in flight. While a person is asked, its deadline stands still.

    Attributes:
        name: the tool's name.
        arguments: what it was called with.
        on_progress: shows how far it is.
        limit: its deadline.
    """

    name: str
    arguments: Mapping[str, Any]
    on_progress: Callable[[str], None]
    limit: asyncio.Timeout

    _questions: int = field(default=0, init=False)
    _left_s: float | None = field(default=None, init=False)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the deadline for the time of the block; it goes on when the last such block ends."""
        now = asyncio.get_running_loop().time
        when = self.limit.when()
        if self._questions == 0 and when is not None:
            self._left_s = when - now()
            self.limit.reschedule(None)
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if self._questions == 0 and self._left_s is not None and not self.limit.expired():
                self.limit.reschedule(now() + self._left_s)


# forms come from servers: what a person could not read or answer in a terminal is declined or cut
MAX_FIELDS: Final = 50
_MAX_LINES: Final = 200
_LONGEST_LINE: Final = 2_000
_MAX_CHOICES: Final = 12
_MAX_NAME: Final = 80
_DECLINE: Final = "/decline"
_CANCEL: Final = "/cancel"
_OPEN: Final = "Open this page in the browser? (y/[n]): "
_OPENS: Final = Choice("y", "Open the page", Effect.ONCE)
_Result = Mapping[str, Any]


class Approver(Protocol):
    """Decides requests of servers to approve a call, knowing what the person has just allowed."""

    async def approve(self, question: str, name: str | None, arguments: Mapping[str, Any]) -> bool:
        """Whether the call may run. `name` and `arguments` are those of the call that asks, if one does."""
        ...


class Elicitation:
    """Answers elicitations (MCP 2025-11-25, Elicitation).

    Args:
        interaction: the person.
        approver: answers approval requests.
        open_page: opens an address in the browser; blocks.
    """

    def __init__(
        self, interaction: Interaction, approver: Approver, open_page: Callable[[str], object] | None = None
    ) -> None:
        self._interaction = interaction
        self._approver = approver
        self._open_page = open_page or _browser

    async def answer(self, params: Mapping[str, Any], call: RunningCall | None) -> _Result:
        """The result of one `elicitation/create`."""
        try:
            if params.get("mode", "form") == "url":
                return await self._page(params, call)
            if is_approval(params):
                return await self._approval(params, call)
            return await self._form(params, call)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the server or the agent takes the question back
            return {"action": "cancel"}  # the person pressed Ctrl-C in the question

    async def _approval(self, params: Mapping[str, Any], call: RunningCall | None) -> _Result:
        name, arguments = (None, {}) if call is None else (call.name, call.arguments)
        if await self._approver.approve(str(params.get("message", "")), name, arguments):
            return {"action": "accept", "content": {"approve": True}}
        return {"action": "decline"}

    async def _form(self, params: Mapping[str, Any], call: RunningCall | None) -> _Result:
        schema = params.get("requestedSchema")
        form_fields = fields(schema if isinstance(schema, Mapping) else {})
        if len(form_fields) > MAX_FIELDS:
            self._interaction.notice(f"a form with {len(form_fields)} fields was declined", Tone.WARNING)
            return {"action": "decline"}
        self._interaction.box(Box.GUARD, [_asks(call), *_lines(params.get("message"))])
        self._interaction.notice(f"{_DECLINE} declines, {_CANCEL} cancels")
        content: dict[str, Any] = {}
        for form_field in form_fields:
            value = await self._value(form_field)
            if isinstance(value, _Ended):
                return {"action": value.action}
            if value is not None:
                content[form_field.name] = value
        return {"action": "accept", "content": content}

    async def _value(self, field: Field) -> Any:
        while True:
            question = Question(field.prompt, choices=_choices(field), subject=field.prompt.strip(" :"))
            line = await self._interaction.ask(question)
            if line is None or line.strip() == _DECLINE:
                return _Ended("decline")
            if line.strip() == _CANCEL:
                return _Ended("cancel")
            try:
                return field.value(line)
            except InvalidLine as problem:
                self._interaction.notice(printable(problem), Tone.WARNING)

    async def _page(self, params: Mapping[str, Any], call: RunningCall | None) -> _Result:
        url = params.get("url")
        if not isinstance(url, str) or not _is_web_page(url):
            self._interaction.notice("a request to open something that is no web page was declined")
            return {"action": "decline"}
        self._interaction.box(
            Box.GUARD, [_asks(call), *_lines(params.get("message")), f"Page:  {printable(url)}"]
        )
        answer = await self._interaction.ask(Question(_OPEN, choices=(_OPENS, NO)))
        if answer is None or answer.strip().lower() not in {"y", "yes"}:
            return {"action": "decline"}
        await asyncio.to_thread(self._open_page, url)
        return {"action": "accept"}


def _choices(field: Field) -> tuple[Choice, ...]:
    """What can be chosen where a field has few values, for those who show buttons; empty for free text."""
    values = field.options if field.kind != "array" else ()
    if field.kind == "boolean":
        values = (("y", "Yes"), ("n", "No"))
    if not values or len(values) > _MAX_CHOICES:
        return ()
    choices = [Choice(value, printable(label, width=_MAX_NAME), Effect.ONCE) for value, label in values]
    return (*choices, Choice(_DECLINE, "Decline", Effect.NO))


class _Ended:
    """The person ended a form instead of typing a value."""

    def __init__(self, action: str) -> None:
        self.action = action


def is_approval(params: Mapping[str, Any]) -> bool:
    """Whether a form asks for the approval of a call, as workspace servers do: one boolean `approve`."""
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or list(properties) != ["approve"]:
        return False
    field = properties["approve"]
    return isinstance(field, Mapping) and field.get("type") == "boolean"


def _is_web_page(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and url.isprintable()


def _asks(call: RunningCall | None) -> str:
    return f"{printable(call.name, width=100)} asks:" if call is not None else "A server asks:"


def _lines(text: object) -> list[str]:
    """The lines of a message, each of them harmless."""
    return printable_lines(text or "", most=_MAX_LINES, width=_LONGEST_LINE)


def _browser(url: str) -> object:
    import webbrowser

    return webbrowser.open(url)
