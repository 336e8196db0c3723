"""Turns: the flow from a question to an answer, the history that they leave, and the ways they end."""

from __future__ import annotations

import asyncio

import pytest

from lm_tools_bridge.agent.agent_settings import AgentSettings
from lm_tools_bridge.agent.conversation.turn import TABLE, Ending, Event, State, TurnState
from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    CallPart,
    Finish,
    ProviderFailure,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from lm_tools_bridge.agent.tool_source import SourceState
from support.agent_doubles import (
    ListedTools,
    ScriptedGuard,
    ScriptedProvider,
    call,
    calling,
    saying,
    text_outcome,
)
from support.agent_scene import Scene, is_whole
from support.clock import ManualClock


async def test_a_reply_without_calls_completes_the_turn() -> None:
    scene = Scene(ScriptedProvider(saying("hello")))
    outcome = await scene.conversation.turn("hi")
    assert (outcome.ending, outcome.rounds, outcome.calls, outcome.detail) == (Ending.COMPLETED, 1, 0, "")
    assert scene.conversation.messages == (UserMessage("hi"), AssistantMessage("hello"))
    assert scene.person.said == "hello"
    assert scene.person.notices == []


async def test_calls_run_and_their_results_go_back_until_the_model_answers() -> None:
    scene = Scene(ScriptedProvider(calling(call(call_id="a", path="x")), saying("it says so")))
    outcome = await scene.conversation.turn("what is in x?")
    assert (outcome.rounds, outcome.calls) == (2, 1)
    first, second = scene.provider.requests
    assert isinstance(first.messages[0], SystemMessage)
    assert first.messages[0].text.startswith(
        "You are a powerful terminal assistant. You can use tools to interact with the system"
    )
    assert [tool.name for tool in first.tools] == ["read", "write"]
    assert first.model == "small"
    assert list(second.messages[1:]) == list(scene.conversation.messages[:-1])
    assert scene.tools.calls == [("read", {"path": "x"})]


async def test_the_history_holds_question_reply_results_and_answer_in_order() -> None:
    calls = (call("read", "a", path="x"), call("write", "b", path="y"))
    scene = Scene(ScriptedProvider(calling(*calls, text="let me look"), saying("done")))
    await scene.conversation.turn("go")
    question, reply, first, second, answer = scene.conversation.messages
    assert (question, reply, answer) == (
        UserMessage("go"),
        AssistantMessage("let me look", calls),
        AssistantMessage("done"),
    )
    assert isinstance(first, ToolMessage) and isinstance(second, ToolMessage)
    assert (first.result.call_id, first.result.text) == ("a", "ran read")
    assert (second.result.call_id, second.result.text) == ("b", "ran write")


async def test_duration_is_told() -> None:
    clock = ManualClock()

    async def slow(name: str, arguments: object) -> object:
        clock.now += 2.5
        return text_outcome("late")

    tools = ListedTools("read", handler=slow)
    scene = Scene(ScriptedProvider(calling(call())), tools, clock=clock)
    assert (await scene.conversation.turn("go")).seconds == 2.5


async def test_a_model_that_calls_for_ever_is_stopped_at_the_limit() -> None:
    scene = Scene(ScriptedProvider(*(calling(call(number=at)) for at in range(50))))
    outcome = await scene.conversation.turn("go")
    assert (outcome.ending, outcome.rounds, outcome.calls) == (Ending.LIMIT_REACHED, 20, 20)
    assert outcome.detail == "maximum tool call rounds (20) reached"
    assert scene.person.notices == [outcome.detail]
    assert len(scene.provider.requests) == 20
    assert is_whole(scene.conversation.messages)
    scene.provider.replies[:] = [saying("so far so good")]
    assert (await scene.conversation.turn("and?")).ending is Ending.COMPLETED
    assert scene.conversation.messages[-3] == AssistantMessage(f"[turn ended: {outcome.detail}]")


async def test_the_limit_can_be_set() -> None:
    scene = Scene(
        ScriptedProvider(*(calling(call(number=at)) for at in range(9))), settings={"loop_limit": 3}
    )
    assert (await scene.conversation.turn("go")).detail == "maximum tool call rounds (3) reached"


async def test_a_provider_that_fails_leaves_the_question_to_be_asked_again() -> None:
    failure = ProviderFailure("ollama", "connection refused", "run ollama serve")
    scene = Scene(ScriptedProvider([failure], saying("hello")))
    outcome = await scene.conversation.turn("hi")
    assert (outcome.ending, outcome.rounds) == (Ending.PROVIDER_FAILED, 0)
    assert scene.person.notices == ["ollama: connection refused; run ollama serve"]
    assert scene.conversation.messages == ()
    await scene.conversation.turn("hi")
    assert scene.conversation.messages == (UserMessage("hi"), AssistantMessage("hello"))


async def test_a_reply_that_breaks_off_runs_nothing_and_leaves_a_whole_history() -> None:
    failure = ProviderFailure("ollama", "the stream was cut", "ask again")
    scene = Scene(ScriptedProvider([TextPart("I will "), CallPart(call(call_id="a")), failure]))
    outcome = await scene.conversation.turn("go")
    assert outcome.ending is Ending.PROVIDER_FAILED
    assert scene.tools.calls == []
    assert scene.texts == ["not run: the reply broke off"]
    assert is_whole(scene.conversation.messages)


async def test_a_stream_without_an_end_is_a_failure() -> None:
    scene = Scene(ScriptedProvider([TextPart("half")]))
    outcome = await scene.conversation.turn("go")
    assert outcome.ending is Ending.PROVIDER_FAILED
    assert outcome.detail == "ollama: the reply ended too early; ask again"
    assert scene.conversation.messages[-1] == AssistantMessage("half")


async def test_a_failure_after_calls_keeps_their_results() -> None:
    scene = Scene(ScriptedProvider(calling(call(call_id="a")), [ProviderFailure("ollama", "broke", "try")]))
    await scene.conversation.turn("go")
    assert scene.texts == ["ran read"]
    assert scene.conversation.messages[-1] == AssistantMessage("[turn ended: ollama: broke; try]")


async def test_a_missing_model_is_told_with_what_to_set() -> None:
    scene = Scene(ScriptedProvider(), settings={"model": {}})
    outcome = await scene.conversation.turn("hi")
    assert outcome.ending is Ending.PROVIDER_FAILED
    step = "choose one with /model NAME, --model NAME or: lmtb agent config"
    assert outcome.detail == f"ollama: no model is chosen; {step}"


async def test_an_empty_or_cut_reply_is_told() -> None:
    scene = Scene(ScriptedProvider([Finish("complete")], [TextPart("hal"), Finish("cut")]))
    assert (await scene.conversation.turn("hi")).ending is Ending.COMPLETED
    await scene.conversation.turn("hi")
    assert scene.person.notices == [
        "the model replied with nothing",
        "the reply reached the model's limit of length",
    ]
    assert scene.conversation.messages[1] == AssistantMessage("[no reply]")


async def test_missing_and_doubled_ids_are_made_unique_across_the_conversation() -> None:
    scene = Scene(
        ScriptedProvider(
            calling(call(n=1), call(n=2), call("write", "same"), call("write", "same", n=1)),
            saying("ok"),
            calling(call("write", "same")),
        )
    )
    await scene.conversation.turn("go")
    await scene.conversation.turn("again")
    ids = [result.call_id for result in scene.results]
    assert len(ids) == len(set(ids)) == 5
    assert ids[2] == "same"
    assert is_whole(scene.conversation.messages)
    assert len(scene.tools.calls) == 5


async def test_results_are_never_substituted_into_text() -> None:
    async def tricky(name: str, arguments: object) -> object:
        return text_outcome(r"$& \1 \ {name} %s")

    tools = ListedTools("read", handler=tricky)
    scene = Scene(ScriptedProvider(calling(call(), text="$& {name}"), saying(r"a \ and $&")), tools)
    await scene.conversation.turn("go %s {}")
    assert scene.texts == [r"$& \1 \ {name} %s"]
    assert scene.conversation.messages[-1] == AssistantMessage(r"a \ and $&")


async def test_a_person_who_cancels_during_the_reply_ends_the_request() -> None:
    scene = Scene(ScriptedProvider([TextPart("I think"), asyncio.Event()]))
    task = asyncio.create_task(scene.conversation.turn("hi"))
    await until(lambda: scene.person.said == "I think")
    task.cancel()
    outcome = await task
    assert (outcome.ending, outcome.detail) == (Ending.CANCELLED, "cancelled by user")
    assert scene.provider.closed == 1
    assert scene.conversation.messages == (UserMessage("hi"), AssistantMessage("I think"))
    assert task.cancelling() == 0


async def test_a_question_cancelled_before_any_reply_leaves_no_trace() -> None:
    scene = Scene(ScriptedProvider([asyncio.Event()]))
    task = asyncio.create_task(scene.conversation.turn("hi"))
    await until(lambda: scene.provider.requests)
    task.cancel()
    assert (await task).ending is Ending.CANCELLED
    assert scene.conversation.messages == ()


async def test_cancelling_a_call_leaves_nothing_running_and_answers_every_open_call() -> None:
    async def endless(name: str, arguments: object) -> object:
        await asyncio.Event().wait()

    tools = ListedTools("read", "write", handler=endless)
    scene = Scene(ScriptedProvider(calling(call(call_id="a"), call("write", "b"))), tools)
    task = asyncio.create_task(scene.conversation.turn("go"))
    await until(lambda: tools.running)
    task.cancel()
    outcome = await task
    assert (outcome.ending, outcome.rounds, outcome.calls) == (Ending.CANCELLED, 1, 1)
    assert tools.running == 0
    assert tools.calls == [("read", {})]
    assert scene.texts == ["cancelled by user", "cancelled by user"]
    assert is_whole(scene.conversation.messages)
    assert scene.guard.ended == [("read", "ABORTED", True)]
    assert (await scene.conversation.turn("on")).ending is Ending.COMPLETED


@pytest.mark.parametrize("how", ["Ctrl-C", "the guard says so"])
async def test_cancelling_at_the_guards_question_ends_the_turn(how: str) -> None:
    guard = ScriptedGuard(pause=asyncio.Event()) if how == "Ctrl-C" else ScriptedGuard(aborts=True)
    scene = Scene(ScriptedProvider(calling(call(call_id="a"))), guard=guard)
    task = asyncio.create_task(scene.conversation.turn("go"))
    await until(lambda: guard.asked)
    if how == "Ctrl-C":
        task.cancel()
    assert (await task).ending is Ending.CANCELLED
    assert guard.ended == ([] if how == "Ctrl-C" else [("read", "ABORTED", None)])
    assert scene.tools.calls == []
    assert scene.texts == ["cancelled by user"]


async def test_a_fault_of_ours_leaves_a_whole_history() -> None:
    class Faulty(ScriptedGuard):
        async def decide(self, call: Call, tool: object) -> object:
            raise ZeroDivisionError

    scene = Scene(ScriptedProvider(calling(call(call_id="a"), call("write", "b"))), guard=Faulty())
    with pytest.raises(ZeroDivisionError):
        await scene.conversation.turn("go")
    assert is_whole(scene.conversation.messages)
    assert len(scene.results) == 2


async def test_tools_are_listed_again_before_each_round() -> None:
    async def adds(name: str, arguments: object) -> object:
        scene.tools.tools.append(scene.tools.tools[0].__class__("new", "", {}))
        return text_outcome("added")

    tools = ListedTools("read", handler=adds)
    scene = Scene(ScriptedProvider(calling(call())), tools)
    await scene.conversation.turn("go")
    assert [len(request.tools) for request in scene.provider.requests] == [1, 2]


async def test_the_system_prompt_stays_first_after_clear_and_other_settings() -> None:
    scene = Scene(ScriptedProvider())
    await scene.conversation.turn("one")
    first = scene.provider.requests[0].messages[0]
    assert isinstance(first, SystemMessage)
    scene.conversation.clear()
    scene.conversation.choose("ollama", "big")
    await scene.conversation.turn("two")
    last = scene.provider.requests[-1]
    assert list(last.messages) == [first, UserMessage("two")]
    assert last.model == "big"
    scene.conversation.configure(AgentSettings(model={"ollama": "small"}, loop_limit=7))
    await scene.conversation.turn("three")
    last = scene.provider.requests[-1]
    assert list(last.messages[:2]) == [first, UserMessage("two")]
    assert last.messages[-1] == UserMessage("three")
    assert last.model == "big"


async def test_another_model_keeps_the_history() -> None:
    scene = Scene(ScriptedProvider())
    await scene.conversation.turn("one")
    scene.conversation.choose("anthropic", "large")
    await scene.conversation.turn("two")
    assert [type(one).__name__ for one in scene.provider.requests[-1].messages] == [
        "SystemMessage",
        "UserMessage",
        "AssistantMessage",
        "UserMessage",
    ]


async def test_the_history_is_kept_before_every_round_and_at_the_end() -> None:
    scene = Scene(ScriptedProvider(calling(call(call_id="a")), saying("done")))
    await scene.conversation.turn("go")
    assert [len(messages) for messages in scene.kept] == [1, 3, 4]
    assert all(is_whole(messages) for messages in scene.kept)


async def test_events_tell_programs_of_calls_results_and_the_outcome() -> None:
    scene = Scene(ScriptedProvider(calling(call(call_id="a", path="x")), saying("done")))
    await scene.conversation.turn("go")
    events = [event for event in scene.person.events if event[0] != "context"]
    assert events[0] == ("call", {"id": "a", "name": "read", "arguments": {"path": "x"}})
    assert events[1] == ("result", {"callId": "a", "name": "read", "content": "ran read"})
    assert events[2] == ("text", {"text": "done"})
    assert events[3][1]["outcome"] == "completed"


def test_the_table_lets_every_state_but_the_last_be_cancelled() -> None:
    for state in (State.ASKING, State.RUNNING):
        assert TABLE[state, Event.CANCELLED] == (State.ENDED, Ending.CANCELLED)
    assert {ending for _, ending in TABLE.values() if ending} == set(Ending)
    with pytest.raises(KeyError):
        TurnState(20).after(Event.REPLIED).after(Event.CANCELLED)


async def until(condition: object) -> None:
    """Let the others run until something holds."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never happened")


async def test_a_source_that_is_not_there_is_told_until_it_comes_back() -> None:
    scene = Scene(ScriptedProvider(*(saying("hello") for _ in range(4))), ListedTools())
    told = "the tools of local are not offered: nothing listens; run lmtb up"
    states = [
        SourceState("local", "unavailable", "nothing listens; run lmtb up"),
        SourceState("local", "ready"),
    ]
    counts = []
    for state in (states[0], states[0], states[1], states[0]):
        scene.tools.now = state
        await scene.conversation.turn("hi")
        counts.append(scene.person.notices.count(told))
    assert counts == [1, 1, 1, 2]


async def test_a_source_that_is_switched_off_is_not_missed() -> None:
    scene = Scene(ScriptedProvider(saying("hello")), ListedTools("read"))
    scene.tools.now = SourceState("local", "unavailable", "gone")
    scene.toolbox.enable_source("local", False)
    await scene.conversation.turn("hi")
    assert not any("the tools of local" in notice for notice in scene.person.notices)
