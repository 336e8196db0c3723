"""Has a model summarise the older part of a conversation, after the person allowed it."""

from __future__ import annotations

from collections.abc import Sequence

from lm_tools_bridge.agent.context.summary import summarised, summary_request
from lm_tools_bridge.agent.conversation.model_reply import ModelReply, read_reply
from lm_tools_bridge.agent.interaction import Interaction, Question, Tone
from lm_tools_bridge.agent.messages import Message
from lm_tools_bridge.agent.model_events import ModelRequest, Provider, ProviderFailure


async def is_allowed(interaction: Interaction, line: str) -> bool:
    """Ask whether to summarise. False if nobody can be asked."""
    answer = await interaction.ask(
        Question(f"The conversation no longer fits ({line}). Summarise its older part? ([y]/n): ")
    )
    return answer is not None and answer.strip().lower() in {"", "y", "yes"}


async def summary_of(
    messages: Sequence[Message],
    provider: Provider,
    interaction: Interaction,
    *,
    model: str,
    space: float,
    context_tokens: int | None,
) -> list[Message]:
    """What can take the place of these messages; empty if the provider gave no summary.

    Args:
        messages: whole turns.
        provider: who summarises.
        interaction: where progress and failures are shown.
        model: the model to ask.
        space: tokens that the request may have.
        context_tokens: the window of the conversation's requests, so that no model is loaded again.
    """
    request = ModelRequest(model, summary_request(messages, space), (), False, context_tokens)
    reply = ModelReply()
    interaction.activity("summarising the conversation")
    try:
        await read_reply(provider, request, reply, None)
    except ProviderFailure as failure:
        interaction.notice(f"no summary: {failure}", Tone.WARNING)
        return []
    finally:
        interaction.activity(None)
    if not reply.text.strip():
        interaction.notice("no summary: the model replied with nothing", Tone.WARNING)
        return []
    return summarised(reply.text)
