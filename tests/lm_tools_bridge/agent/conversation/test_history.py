"""The history: whatever it is made from, a provider takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.agent.conversation.history import (
    Correction,
    History,
    message_tokens,
    messages_tokens,
    open_calls,
    repaired,
    tools_tokens,
    with_short_results,
)
from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    Message,
    Result,
    Tool,
    ToolMessage,
    UserMessage,
)
from lm_tools_bridge.text.text_tokens import text_tokens
from support.agent_doubles import ScriptedProvider
from support.agent_scene import Scene, is_whole

IDS = st.sampled_from(["a", "b", "c", ""])
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, st.just("q")),
    st.builds(
        AssistantMessage,
        st.just("t"),
        st.lists(
            st.builds(Call, IDS, st.just("read"), st.just({})), max_size=3, unique_by=lambda one: one.id
        ).map(tuple),
    ),
    st.builds(lambda one: ToolMessage(Result(one, "read", "r")), IDS),
)


@given(st.lists(MESSAGES, max_size=12))
def test_any_messages_become_a_history_that_providers_take(messages: Sequence[Message]) -> None:
    found = repaired(messages)
    assert is_whole(found)
    assert not found or isinstance(found[0], UserMessage)
    assert not found or isinstance(found[-1], AssistantMessage)
    assert repaired(found) == found


@given(st.lists(st.lists(IDS, min_size=1, max_size=4), max_size=5), st.integers(0, 4))
def test_ids_are_unique_in_a_conversation(replies: list[list[str]], done: int) -> None:
    history = History()
    history.begin("go")
    for ids in replies:
        for call in history.replied("", [Call(one, "read", {}) for one in ids])[:done]:
            history.result(Result(call.id, call.name, "r"))
        history.close("cancelled by user")
    found = [call.id for one in history.messages if isinstance(one, AssistantMessage) for call in one.calls]
    assert len(found) == len(set(found))
    assert all(found)
    assert is_whole(history.messages)


def test_open_calls_are_those_of_the_last_reply_without_a_result() -> None:
    first, second = Call("a", "read", {}), Call("b", "read", {})
    messages: list[Message] = [UserMessage("q"), AssistantMessage("", (first, second))]
    assert open_calls(messages) == [first, second]
    messages.append(ToolMessage(Result("a", "read", "r")))
    assert open_calls(messages) == [second]
    messages.append(ToolMessage(Result("b", "read", "r")))
    assert open_calls(messages) == []


async def test_a_session_that_broke_off_in_a_call_can_be_resumed() -> None:
    scene = Scene(ScriptedProvider())
    scene.conversation.restore([UserMessage("q"), AssistantMessage("", (Call("a", "read", {}),))])
    await scene.conversation.turn("go on")
    sent = scene.provider.requests[0].messages[1:]
    assert is_whole(sent)
    assert scene.texts == ["not run: the session ended"]
    assert sent[-1] == UserMessage("go on")


def test_calls_results_pictures_and_tools_are_counted() -> None:
    plain = message_tokens(AssistantMessage("a"))
    assert message_tokens(AssistantMessage("a", (Call("1", "read", {"path": "x" * 100}),))) > plain + 25
    result = Result("1", "read", "x" * 100)
    assert message_tokens(ToolMessage(result)) == message_tokens(UserMessage("x" * 100))
    picture = Result("1", "read", "", content=({"type": "image"},))
    assert message_tokens(ToolMessage(picture)) > 1000
    assert tools_tokens([Tool("read", "d" * 100, {"type": "object"})] * 2) > 80


def test_the_first_count_of_a_provider_corrects_estimates_and_later_ones_adjust() -> None:
    first = Correction().learned(1000, 1300)
    assert (first.factor, first.samples) == (1.3, 1)
    assert first.learned(1000, 1100).factor == pytest.approx(1.2)
    assert first.margin < Correction().margin


@pytest.mark.parametrize(
    ("estimate", "counted", "factor"), [(100, 300, 1), (1000, 0, 1), (1000, 9000, 3), (1000, 1, 0.4)]
)
def test_counts_that_say_little_change_little(estimate: float, counted: int, factor: float) -> None:
    assert Correction().learned(estimate, counted).factor == factor


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
