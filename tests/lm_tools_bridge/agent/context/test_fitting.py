"""Results are shortened oldest first, no more of them than needed, and never small ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lm_tools_bridge.agent.context.fitting import with_short_results
from lm_tools_bridge.agent.context.token_estimate import message_tokens, messages_tokens
from lm_tools_bridge.agent.messages import AssistantMessage, Call, Message, Result, ToolMessage, UserMessage
from lm_tools_bridge.text.text_tokens import text_tokens

PICTURE = ({"type": "image", "data": "x"},)


def reply(*names: str) -> Message:
    return AssistantMessage("", tuple(Call(name, "read", {}) for name in names))


def result(name: str, words: int, content: Sequence[Mapping[str, Any]] = ()) -> ToolMessage:
    return ToolMessage(Result(name, "read", f"{name} " + "word and " * (words // 2), content=content))


def texts(messages: Sequence[Message]) -> dict[str, str]:
    return {one.result.call_id: one.result.text for one in messages if isinstance(one, ToolMessage)}


def fitted(messages: Sequence[Message], excess: float) -> dict[str, str]:
    """The results after the messages were cut by this many tokens."""
    return texts(with_short_results(messages, messages_tokens(messages) - excess))


OLDER = [UserMessage("q"), reply("a", "b", "c"), result("a", 1000), result("b", 1000), result("c", 1000)]
LAST = [*OLDER, reply("d"), result("d", 1000)]


def test_what_fits_stays_as_it_is() -> None:
    assert with_short_results(LAST, messages_tokens(LAST)) == LAST


def test_an_old_result_becomes_a_note_with_the_number_of_its_characters() -> None:
    before = texts(LAST)
    after = fitted(LAST, 1)
    assert after["a"] == f"[left out to fit the context: {len(before['a'])} characters]"
    assert {name: after[name] for name in "bcd"} == {name: before[name] for name in "bcd"}


def test_no_more_results_are_left_out_than_the_space_needs() -> None:
    """What a shortened result saves is its size without that of the note."""
    saved = message_tokens(LAST[2]) - message_tokens(with_short_results(LAST, messages_tokens(LAST) - 1)[2])
    assert [name for name, text in fitted(LAST, saved).items() if "left out" in text] == ["a"]
    assert [name for name, text in fitted(LAST, saved + 1).items() if "left out" in text] == ["a", "b"]


def test_small_results_stay_whatever_the_space() -> None:
    messages = [UserMessage("q"), reply("a", "b"), result("a", 100), result("b", 100), reply("d")]
    assert with_short_results(messages, 0) == messages


def test_of_the_last_reply_the_beginning_stays_and_the_rest_is_counted() -> None:
    messages = [UserMessage("q"), reply("d"), result("d", 4000)]
    before = texts(messages)["d"]
    beginning, _, note = fitted(messages, 1000)["d"].partition("\n")
    assert before.startswith(beginning)
    assert note == f"[left out to fit the context: {len(before) - len(beginning)} characters]"
    tokens = text_tokens(before)
    assert tokens - 1100 < text_tokens(beginning) < tokens - 1000


def test_results_of_the_last_reply_share_the_loss_and_the_request_fits() -> None:
    messages = [UserMessage("q"), reply("d", "e"), result("d", 2000), result("e", 2000)]
    space = messages_tokens(messages) - 1000
    short = with_short_results(messages, space)
    assert messages_tokens(short) <= space
    lost = [len(texts(messages)[name]) - len(texts(short)[name]) for name in "de"]
    assert min(lost) > 0.5 * max(lost)


def test_a_shortened_result_has_no_pictures_and_keeps_its_call() -> None:
    messages = [UserMessage("q"), reply("a"), result("a", 1000, PICTURE), reply("d")]
    short = with_short_results(messages, messages_tokens(messages) - 1)[2]
    assert isinstance(short, ToolMessage)
    assert (short.result.call_id, short.result.name, short.result.content) == ("a", "read", ())
