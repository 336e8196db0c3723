"""Google's Gemini API."""

from __future__ import annotations

import pytest

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    ProviderFailure,
    Result,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from support.clients.model_replies import KEY, ask, provider_of, question
from support.servers.models.formats.gemini_content import SIGNATURE
from support.servers.models.formats.steps import Reply, ReplyCall, call, say, sse
from support.servers.models.model_server import Bytes, Refuse, model_server


async def test_the_key_is_in_a_header_and_results_are_parts_of_one_content() -> None:
    history = (
        SystemMessage("Be short."),
        UserMessage("Two things."),
        AssistantMessage("Well", (Call("a", "weather", {"city": "Ulm"}), Call("b", "clock", {}))),
        ToolMessage(Result("a", "weather", "rain")),
        ToolMessage(Result("b", "clock", "it fell", is_error=True)),
    )
    async with model_server(say("ok")) as server, provider_of("gemini", server) as provider:
        await ask(provider, question(*history, model="gemini-2.5-flash"))
    request = server.requests[0]
    assert request.path == "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"] == KEY
    assert request.body == {
        "system_instruction": {"parts": [{"text": "Be short."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Two things."}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Well"},
                    {"functionCall": {"name": "weather", "args": {"city": "Ulm"}}},
                    {"functionCall": {"name": "clock", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "weather", "response": {"output": "rain"}}},
                    {"functionResponse": {"name": "clock", "response": {"error": "it fell"}}},
                ],
            },
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "weather",
                        "description": "Tells the weather.",
                        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
                    }
                ]
            }
        ],
    }


async def test_a_whole_reply_is_asked_for_by_another_path() -> None:
    async with model_server(say("ok")) as server, provider_of("gemini", server) as provider:
        await ask(provider, question(stream=False, model="models/gemini-2.5-pro"))
    assert server.requests[0].path == "/v1beta/models/gemini-2.5-pro:generateContent"


async def test_the_signature_and_id_of_a_call_are_sent_back_unchanged() -> None:
    reply = Reply(calls=(ReplyCall("weather", {"city": "Ulm"}, "their-id"),))
    async with model_server(reply, say("ok")) as server, provider_of("gemini", server) as provider:
        [made] = (await ask(provider)).calls
        result = ToolMessage(Result(made.id, "weather", "rain"))
        await ask(provider, question(UserMessage("x"), AssistantMessage("", (made,)), result))
    contents = server.requests[1].body["contents"]
    assert contents[1]["parts"] == [
        {
            "functionCall": {"id": "their-id", "name": "weather", "args": {"city": "Ulm"}},
            "thoughtSignature": SIGNATURE,
        }
    ]
    assert contents[2]["parts"][0]["functionResponse"]["id"] == "their-id"


@pytest.mark.parametrize(("model", "signed"), [("gemini-3-pro", True), ("gemini-2.5-flash", False)])
async def test_calls_of_another_model_get_the_signature_that_stands_for_none(
    model: str, signed: bool
) -> None:
    history = (
        UserMessage("x"),
        AssistantMessage("", (Call("a", "weather", {}), Call("b", "weather", {}))),
        ToolMessage(Result("a", "weather", "rain")),
        ToolMessage(Result("b", "weather", "rain")),
    )
    async with model_server(say("ok")) as server, provider_of("gemini", server) as provider:
        await ask(provider, question(*history, model=model))
    first, second = server.requests[0].body["contents"][1]["parts"]
    assert ("thoughtSignature" in first) is signed
    assert "thoughtSignature" not in second


async def test_a_blocked_prompt_is_a_refusal() -> None:
    blocked = Bytes(
        sse({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}})
    )
    async with model_server(blocked) as server, provider_of("gemini", server) as provider:
        assert (await ask(provider)).finish == "refused"


async def test_a_malformed_call_of_the_model_is_a_failure() -> None:
    async with (
        model_server(Reply(reason="MALFORMED_FUNCTION_CALL")) as server,
        provider_of("gemini", server) as provider,
    ):
        with pytest.raises(ProviderFailure, match=r"no usable reply \(MALFORMED_FUNCTION_CALL\)"):
            await ask(provider, question(stream=False))


async def test_a_wrong_key_is_told_as_one_although_the_status_is_another() -> None:
    body = b'{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}'
    async with model_server(Refuse(400, body=body)) as server, provider_of("gemini", server) as provider:
        with pytest.raises(
            ProviderFailure, match=r"gemini: the key was refused \(400\); set GEMINI_API_KEY, or store it"
        ):
            await ask(provider)


async def test_calls_need_no_id_of_the_server() -> None:
    async with model_server(call("weather")) as server, provider_of("gemini", server) as provider:
        [made] = (await ask(provider)).calls
    assert made.id


@pytest.mark.parametrize(("model", "takes"), [("gemini-3-pro", True), ("gemini-2.5-flash", False)])
async def test_pictures_of_a_result_go_to_models_that_take_them(model: str, takes: bool) -> None:
    picture = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    other = {"type": "image", "mimeType": "image/tiff", "data": "aGk="}
    result = Result("a", "draw", "[image image/png, 2 bytes]", content=(picture, other))
    history = (UserMessage("x"), AssistantMessage("", (Call("a", "draw", {}),)), ToolMessage(result))
    async with model_server(say("ok")) as server, provider_of("gemini", server) as provider:
        await ask(provider, question(*history, model=model))
    function = server.requests[0].body["contents"][-1]["parts"][0]["functionResponse"]
    expected = [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]
    assert function.get("parts") == (expected if takes else None)
    assert function["response"] == {"output": "[image image/png, 2 bytes]"}
