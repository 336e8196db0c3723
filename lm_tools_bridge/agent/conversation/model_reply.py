"""Reads one reply of a model and shows it as it arrives; what arrived stays known if the reply breaks off."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

from lm_tools_bridge.agent.interaction import Interaction
from lm_tools_bridge.agent.messages import (
    Call,
    CallPart,
    Finish,
    ModelEvent,
    ModelRequest,
    Provider,
    ProviderFailure,
    TextPart,
    ThinkingPart,
    Usage,
)


@dataclass(slots=True)
class ModelReply:
    """What arrived of a reply so far. `finish` is None until its end."""

    texts: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    usage: Usage | None = None
    finish: Finish | None = None

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.texts)

    def add(self, event: ModelEvent) -> None:
        """Take one event."""
        match event:
            case TextPart(text):
                self.texts.append(text)
            case CallPart(call):
                self.calls.append(call)
            case Usage():
                self.usage = event
            case Finish():
                self.finish = event
            case _:  # what it thinks aloud is never kept
                pass


async def read_reply(
    provider: Provider, request: ModelRequest, reply: ModelReply, interaction: Interaction | None
) -> None:
    """Ask the model and collect its reply in `reply`. Cancelling closes the request.

    Args:
        provider: whom to ask.
        request: what to ask.
        reply: what arrives is added to it.
        interaction: where it is shown; None to show nothing.

    Raises:
        ProviderFailure: there is no whole reply.
    """
    events = provider.reply(request)
    try:
        async with aclosing(cast("Any", events)):
            async for event in events:
                reply.add(event)
                if interaction is not None:
                    _show(event, interaction)
    finally:
        if interaction is not None:
            interaction.activity(None)
            interaction.reply_ended()
    if reply.finish is None:
        raise ProviderFailure(provider.name, "the reply ended too early", "ask again")


def _show(event: ModelEvent, interaction: Interaction) -> None:
    match event:
        case TextPart(text):
            interaction.reply_text(text)
        case ThinkingPart(text):
            interaction.thinking(text)
        case _:
            pass
