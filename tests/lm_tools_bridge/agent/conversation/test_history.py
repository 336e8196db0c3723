"""The history: whatever it is made from, a provider takes it."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.agent.conversation.history import History, open_calls, repaired
from lm_tools_bridge.agent.messages import AssistantMessage, Call, Message, Result, ToolMessage, UserMessage
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
