"""A key goes to its provider in a header, and nowhere else: no address, body, log, text, error or representation."""

from __future__ import annotations

import asyncio
import io
import logging
import traceback

import pytest

from lm_tools_bridge import log
from lm_tools_bridge.agent.messages import ProviderFailure
from lm_tools_bridge.agent.provider_keys import Key, wish_for
from support.clients.model_replies import DIALECTS, KEY, all_keys, ask, keys, provider_of
from support.servers.models.formats.steps import say
from support.servers.models.model_server import Broken, Bytes, HangUp, Refuse, model_server

BEGINNING = KEY[:10]
ECHO = f'{{"error": {{"message": "Incorrect API key provided: {KEY}, {BEGINNING}***5e1d"}}}}'.encode()


@pytest.mark.parametrize("dialect", [*DIALECTS, "azure", "mistral"])
async def test_the_key_is_in_one_header_only(dialect: str) -> None:
    async with model_server(say("ok")) as server:
        base = server.url if dialect == "azure" else server
        async with provider_of(dialect, base) as provider:
            await ask(provider)
    request = server.requests[0]
    assert KEY not in request.path
    assert KEY not in str(request.body)
    assert [name for name, value in request.headers.items() if KEY in value] == [
        {"anthropic": "x-api-key", "gemini": "x-goog-api-key", "azure": "api-key"}.get(
            dialect, "authorization"
        )
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "turn",
    [
        Refuse(401, body=ECHO), Refuse(400, body=ECHO), Refuse(403, body=ECHO), Refuse(404, body=ECHO), Refuse(500, body=ECHO),
        Refuse(302, headers={"Location": "http://127.0.0.1:1/"}), Bytes(ECHO), Broken(say("x"), 20), HangUp(),
    ],
    ids=["401", "400", "403", "404", "500", "redirect", "error in a stream", "cut", "hang up"],
)  # fmt: skip
async def test_no_failure_and_no_log_shows_the_key_or_its_beginning(
    dialect: str,
    turn: Refuse | Bytes | Broken | HangUp,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)
    async with model_server(*[turn] * 4) as server, provider_of(dialect, server, pauses=[]) as provider:
        with pytest.raises(ProviderFailure) as raised:
            await ask(provider)
        shown = (
            "".join(traceback.format_exception(raised.value))
            + repr(raised.value)
            + repr(provider)
            + repr(vars(provider))
        )
    shown += caplog.text + "".join(capfd.readouterr())
    assert BEGINNING not in shown


async def test_a_key_that_was_used_is_hidden_in_every_log_line_from_then_on() -> None:
    secret = "another-canary-77aa77aa"
    await keys(OPENAI_API_KEY=secret).find(wish_for("openai"))
    stream = io.StringIO()
    log.configure("debug", stream, console=False)
    log.logger().info("test.event", text=f"the value {secret}")
    assert "test.event" in stream.getvalue()
    assert secret not in stream.getvalue()


def test_a_key_shows_its_place_and_not_its_value() -> None:
    key = Key(KEY, "environment", "OPENAI_API_KEY")
    assert repr(key) == str(key) == f"{key}" == "Key(source='environment', source_detail='OPENAI_API_KEY')"


async def test_what_is_found_shows_no_value_either() -> None:
    found = await all_keys().find(wish_for("openai"))
    assert found.key is not None
    assert KEY not in repr(found)
