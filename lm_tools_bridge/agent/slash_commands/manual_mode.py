"""Calls tools without a model: a person enters a tool, then its arguments as JSON or a bare value."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lm_tools_bridge.agent.conversation.toolbox import NotFound
from lm_tools_bridge.agent.interaction import Box, Question, Tone
from lm_tools_bridge.agent.messages import Call, Result
from lm_tools_bridge.agent.slash_commands.session import Session
from lm_tools_bridge.agent.slash_commands.tool_menu import chosen, menu
from lm_tools_bridge.agent.tool_source import result_text
from lm_tools_bridge.text.near_names import did_you_mean

if TYPE_CHECKING:
    from lm_tools_bridge.agent.conversation.toolbox import Found


_LIKELY: Final = ("command", "path", "port", "pid")
"""Properties that a bare value is probably meant for."""
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})


class NoArguments(ValueError):
    """What was typed cannot be taken; the message says why."""


def arguments_of(typed: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments.

    A bare value is given to the first required property, else to the only one, else to one that such values
    are for, else to `value`, in the type that the schema has for it.

    Raises:
        NoArguments: it begins like an object and is none, or does not fit the type.
    """
    text = typed.strip()
    if not text:
        return {}
    if text.startswith("{"):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise NoArguments(f"this is no JSON object: {error}") from error
        return dict(value)
    properties = schema.get("properties")
    members: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    name = _property(schema, members)
    return {name: _converted(text, members.get(name), name)}


def _property(schema: Mapping[str, Any], properties: Mapping[str, Any]) -> str:
    required = schema.get("required")
    if isinstance(required, list) and required and isinstance(required[0], str):
        return required[0]
    if len(properties) == 1:
        return str(next(iter(properties)))
    return next((name for name in _LIKELY if name in properties), "value")


def _converted(text: str, schema: Any, name: str) -> Any:
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        try:
            return _CONVERSIONS.get(kind, _as_text)(text)
        except (ValueError, RecursionError):
            continue
    raise NoArguments(
        f"{name} must be {' or '.join(map(str, kinds if isinstance(kinds, list) else [kinds]))}"
    )


def _as_text(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _as_boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(text)


def _as_list(text: str) -> list[Any]:
    if not text.startswith("["):
        return [_as_text(text)]
    items = msgspec.json.decode(text)
    return list(items)


def _as_null(text: str) -> None:
    if text != "null":
        raise ValueError(text)


def _as_object(text: str) -> Any:
    raise ValueError(text)


_CONVERSIONS: Final[Mapping[Any, Callable[[str], Any]]] = {
    "integer": int, "number": float, "boolean": _as_boolean, "array": _as_list, "null": _as_null,
    "object": _as_object, "string": _as_text, None: _as_text,
}  # fmt: skip


_SKIP: Final = "0"


async def manual_input(session: Session, text: str) -> None:
    """Do what was entered: Enter shows the menu, `0` nothing, a number or name calls one tool."""
    await session.toolbox.refresh()
    names = [tool.name for tool in session.toolbox.tools()]
    word, _, argument = text.strip().partition(" ")
    if not word:
        session.screen.lines(menu(names) if names else ["there are no tools; /servers says why"])
    elif word == _SKIP:
        return
    else:
        name = chosen(word, names)
        if name is None:
            hint = did_you_mean(word, names)
            session.screen.notice(f"there is no tool {word}{hint}; Enter lists them", Tone.WARNING)
            return
        await _run_chosen_tool(session, name, argument)


async def _run_chosen_tool(session: Session, name: str, typed: str) -> None:
    offer = next(candidate for candidate in session.toolbox.offers if candidate.name == name)
    if not typed and offer.tool.input_schema.get("properties"):
        answer = await session.screen.ask(Question(f"Arguments of {name}: "))
        if answer is None or answer.strip() == _SKIP:
            return
        typed = answer
    try:
        arguments = arguments_of(typed, offer.tool.input_schema)
    except NoArguments as problem:
        session.screen.notice(str(problem), Tone.WARNING)
        return
    match = session.toolbox.find(Call("manual", name, arguments))
    if isinstance(match, NotFound):
        session.screen.notice(match.text, Tone.WARNING)
        return
    await _run(session, name, match)


async def _run(session: Session, name: str, match: Found) -> None:
    decision = await session.guard.decide(match.call, match.tool)
    session.screen.activity(f"running {name}")
    started, failed = time.monotonic(), True
    try:
        outcome = await session.toolbox.run(
            match, decision.arguments, lambda text: session.screen.activity(f"{name}: {text}")
        )
        failed = outcome.is_error
    finally:
        session.screen.activity(None)
        seconds = time.monotonic() - started
        session.guard.finished(match.call, decision, seconds=seconds, failed=failed)
    text = result_text(outcome.content, outcome.structured)
    session.last = Result("manual", name, text, outcome.is_error, tuple(outcome.content), outcome.code)
    session.screen.box(Box.OUTPUT, text.splitlines() or ["(no output)"])
