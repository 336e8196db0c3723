"""Calls tools without a model: a person enters the number or name of a tool, then its arguments."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from lm_tools_bridge.agent.conversation.toolbox import NotFound
from lm_tools_bridge.agent.interaction import Box, Question, Tone
from lm_tools_bridge.agent.messages import Call, Result
from lm_tools_bridge.agent.result_text import result_text
from lm_tools_bridge.agent.slash_commands.manual_arguments import NoArguments, arguments_of
from lm_tools_bridge.agent.slash_commands.session import Session
from lm_tools_bridge.agent.slash_commands.tool_menu import chosen, menu
from lm_tools_bridge.text.near_names import did_you_mean

if TYPE_CHECKING:
    from lm_tools_bridge.agent.conversation.toolbox import Found

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
