"""Calls of a reply: what runs, what does not and why, and what the model is told of it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import pytest

from lm_tools_bridge.agent.conversation.turn import Ending
from lm_tools_bridge.agent.messages import Call
from lm_tools_bridge.agent.tool_source import Outcome, cut_text, result_text
from support.agent_doubles import (
    Handler,
    ListedTools,
    ScriptedGuard,
    ScriptedProvider,
    call,
    calling,
    saying,
    text_outcome,
)
from support.agent_scene import Scene, is_whole


class RefusingTools(ListedTools):
    """Refuses each call before anybody is asked."""

    def refusal(self, name: str, arguments: Mapping[str, Any]) -> Outcome | None:
        return text_outcome("root commands are off", is_error=True)


async def test_nobody_is_asked_about_a_call_that_its_source_refuses() -> None:
    tools = RefusingTools("read")
    scene = await ran(call(), tools=tools)
    assert scene.texts == ["root commands are off"]
    assert (scene.guard.asked, tools.calls) == ([], [])
    assert [(name, failed) for name, _, failed in scene.guard.ended] == [("read", None)]


def gives(outcome: Outcome | Exception) -> Handler:
    async def handle(name: str, arguments: Mapping[str, Any]) -> Outcome:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return handle


async def ran(*calls: Call, tools: ListedTools | None = None, **parts: Any) -> Scene:
    """A turn whose first reply has these calls."""
    scene = Scene(ScriptedProvider(calling(*calls)), tools or ListedTools("read", "write"), **parts)
    await scene.conversation.turn("go")
    assert is_whole(scene.conversation.messages)
    return scene


async def test_every_call_of_a_reply_runs_in_order() -> None:
    scene = await ran(call("write", "1", n=1), call("read", "2"), call("write", "3", n=3))
    assert scene.tools.calls == [("write", {"n": 1}), ("read", {}), ("write", {"n": 3})]
    assert scene.texts == ["ran write", "ran read", "ran write"]


async def test_arguments_that_cannot_be_read_run_nothing_and_are_told() -> None:
    broken = Call("1", "read", None, "Error: arguments are not valid JSON at character 7")
    scene = await ran(broken, Call("2", "read", None), call("write"))
    assert scene.texts == [broken.problem, "Error: arguments must be an object", "ran write"]
    assert [result.is_error for result in scene.results] == [True, True, False]
    assert scene.tools.calls == [("write", {})]
    assert [one.name for one in scene.guard.asked] == ["write"]


async def test_an_unknown_tool_is_told_with_near_matches() -> None:
    scene = await ran(call("raed"), call("zzz"))
    assert scene.texts == [
        "Tool not found or disabled: raed; did you mean read?",
        "Tool not found or disabled: zzz",
    ]
    assert scene.guard.asked == []


@pytest.mark.parametrize(
    "name", ["openllm_secrets_get", "lmToolsBridge.callTool", "lmToolsBridge_callTool", "callTool"]
)
async def test_internal_tools_are_neither_offered_nor_found_nor_run(name: str) -> None:
    scene = await ran(call(name), tools=ListedTools(name, "openllm_secrets_list"))
    assert scene.texts == [f"Tool not found or disabled: {name}"]
    assert scene.tools.calls == []
    assert scene.guard.asked == []
    assert scene.provider.requests[0].tools == []


async def test_a_disabled_tool_is_not_offered_and_its_call_is_refused_before_the_guard() -> None:
    scene = Scene(ScriptedProvider(calling(call())))
    scene.toolbox.enable("read", False)
    await scene.conversation.turn("go")
    assert [tool.name for tool in scene.provider.requests[0].tools] == ["write"]
    assert scene.texts == ["Tool read is disabled"]
    assert scene.tools.calls == []
    assert scene.guard.asked == []


async def test_a_denial_is_told_to_the_model_and_the_turn_goes_on() -> None:
    scene = await ran(call(), call("write"), guard=ScriptedGuard(denied=frozenset({"read"})))
    assert scene.texts == ["User denied execution", "ran write"]
    assert scene.guard.ended == [("read", "DENIED", None), ("write", "ALLOWED", False)]


async def test_a_call_runs_with_the_arguments_that_the_person_edited() -> None:
    scene = await ran(call(path="x"), guard=ScriptedGuard(edited={"path": "y"}))
    assert scene.tools.calls == [("read", {"path": "y"})]


@pytest.mark.parametrize("value", ["a\nb\tc", "\u2028", '"\\', "end\\", "}", "😀é", "x" * 2**20])
async def test_arguments_reach_the_tool_unchanged(value: str) -> None:
    scene = await ran(call(text=value))
    assert scene.tools.calls == [("read", {"text": value})]


async def test_a_failed_call_is_told_with_its_text_and_shown() -> None:
    outcome = text_outcome("no such file. Next step: list the folder", is_error=True)
    scene = await ran(call(), tools=ListedTools("read", handler=gives(outcome)))
    assert (scene.results[0].text, scene.results[0].is_error) == (
        "no such file. Next step: list the folder",
        True,
    )
    assert scene.person.boxes[0][1] == ["no such file. Next step: list the folder"]
    assert scene.guard.ended == [("read", "ALLOWED", True)]


async def test_a_source_that_raises_fails_only_its_call() -> None:
    tools = ListedTools("read", handler=gives(ConnectionResetError("connection lost")))
    scene = await ran(call(), tools=tools)
    assert scene.texts == ["Error: Tool call failed: connection lost"]
    assert scene.results[0].is_error


async def test_a_tool_that_takes_too_long_is_cancelled() -> None:
    async def endless(name: str, arguments: Mapping[str, Any]) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    scene = await ran(call(), tools=ListedTools("read", handler=endless), settings={"tool_s": 0.01})
    assert scene.texts[0].startswith("Error: Tool call failed: no result within 0.01 s. Next step: ")
    assert scene.results[0].code == 47104
    assert scene.tools.running == 0


async def test_a_source_that_limits_its_calls_is_left_to_do_so() -> None:
    async def slow(name: str, arguments: Mapping[str, Any]) -> Outcome:
        await asyncio.sleep(0.03)
        return text_outcome("answered after a question")

    tools = ListedTools("read", handler=slow)
    tools.limits_calls = True
    scene = await ran(call(), tools=tools, settings={"tool_s": 0.001})
    assert scene.texts == ["answered after a question"]


# -- repeats -------------------------------------------------------------------------------------------------


async def test_a_repeated_call_is_suppressed_whatever_the_order_of_its_keys() -> None:
    first, second = (
        Call("1", "read", {"a": 1, "b": {"c": 2, "d": 3}}),
        Call("2", "read", {"b": {"d": 3, "c": 2}, "a": 1}),
    )
    scene = Scene(ScriptedProvider(calling(first), calling(second), saying("ok")))
    assert (await scene.conversation.turn("go")).calls == 1
    assert scene.texts[1] == (
        "Redundant tool call suppressed: read was already called with these arguments in this turn."
        "\nIts result was:\nran read"
    )
    assert len(scene.tools.calls) == 1
    assert is_whole(scene.conversation.messages)


async def test_three_repeats_end_the_turn() -> None:
    scene = Scene(ScriptedProvider(*(calling(call(), call("write", n=at)) for at in range(9))))
    outcome = await scene.conversation.turn("go")
    assert (outcome.ending, outcome.rounds, outcome.calls) == (Ending.REPEATED_CALLS, 4, 4)
    assert scene.texts[-1] == "not run: the turn ended"
    assert scene.person.notices == [outcome.detail]
    assert is_whole(scene.conversation.messages)


async def test_the_next_turn_may_repeat_calls() -> None:
    scene = Scene(ScriptedProvider(calling(call()), saying("a"), calling(call()), saying("b")))
    await scene.conversation.turn("one")
    await scene.conversation.turn("two")
    assert len(scene.tools.calls) == 2


async def test_tools_named_in_the_settings_may_be_repeated() -> None:
    scene = await ran(call(), call(), call(), call(), settings={"repeatable": ("read",)})
    assert len(scene.tools.calls) == 4


@pytest.mark.parametrize("code", [47102, 47103, 47104, 47105, 47109])
async def test_a_call_that_failed_for_a_passing_reason_may_be_repeated(code: int) -> None:
    tools = ListedTools("read", handler=gives(text_outcome("later", is_error=True, code=code)))
    scene = await ran(call(), call(), tools=tools)
    assert scene.texts == ["later", "later"]


@pytest.mark.parametrize("code", [None, 47106, 47121, -32602])
async def test_a_call_that_failed_for_good_may_not(code: int | None) -> None:
    tools = ListedTools("read", handler=gives(text_outcome("never", is_error=True, code=code)))
    scene = await ran(call(), call(), tools=tools)
    assert scene.texts[1].startswith("Redundant tool call suppressed: read ")
    assert len(tools.calls) == 1


async def test_a_denied_call_is_not_asked_about_again() -> None:
    scene = await ran(call(), call(), guard=ScriptedGuard(denied=frozenset({"read"})))
    assert len(scene.guard.asked) == 1
    assert scene.texts[1].endswith("Its result was:\nUser denied execution")


# -- results -------------------------------------------------------------------------------------------------


def test_text_blocks_are_joined_and_other_blocks_named() -> None:
    picture = base64.b64encode(bytes(12 * 1024)).decode()
    blocks = [
        {"type": "text", "text": "one"},
        {"type": "image", "mimeType": "image/png", "data": picture},
        {"type": "text", "text": "two"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "application/pdf", "blob": "AAAA"}},
        {"type": "resource_link", "uri": "file:///c"},
        {"type": "audio"},
    ]
    assert result_text(blocks).split("\n") == [
        "one",
        "[image image/png, 12 KB]",
        "two",
        "inside",
        "[resource application/pdf, 3 bytes]",
        "[resource_link file:///c]",
        "[audio]",
    ]


def test_a_structured_result_without_blocks_is_json() -> None:
    assert result_text([], {"message": "\u00e9"}) == '{"message":"\u00e9"}'
    assert result_text([]) == ""


@pytest.mark.parametrize(("text", "kept"), [("a" * 10, 8), ("é" * 5, 4), ("a" + "é" * 5, 4)])
def test_a_long_text_is_cut_between_characters_with_the_number_of_the_rest(text: str, kept: int) -> None:
    assert cut_text(text, 8) == f"{text[:kept]}\n[truncated: {len(text) - kept} characters]"
    assert cut_text(text, 10_000) == text


async def test_a_large_result_is_cut_in_the_history_and_whole_as_the_last_result() -> None:
    text = "x" * (64 * 1024 + 500)
    scene = await ran(call(), tools=ListedTools("read", handler=gives(text_outcome(text))))
    assert scene.texts == ["x" * (64 * 1024) + "\n[truncated: 500 characters]"]
    assert scene.conversation.last_result is not None
    assert scene.conversation.last_result.text == text


async def test_pictures_stay_with_the_result_for_models_that_take_them() -> None:
    picture = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    tools = ListedTools("read", handler=gives(Outcome(({"type": "text", "text": "see"}, picture))))
    scene = await ran(call(), tools=tools)
    assert scene.results[0].content == (picture,)
    assert scene.texts == ["see\n[image image/png, 3 bytes]"]


async def test_without_any_source_a_call_is_told_so() -> None:
    scene = Scene(ScriptedProvider(calling(call())))
    scene.toolbox.sources = ()
    await scene.conversation.turn("go")
    assert scene.texts == ["Error: No MCP client configured"]
