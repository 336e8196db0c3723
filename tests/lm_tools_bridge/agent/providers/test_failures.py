"""What a person reads when a provider fails: its name, the cause, and what to do. Nothing is tried too often."""

from __future__ import annotations

import socket

import pytest

from lm_tools_bridge.agent.messages import ProviderFailure
from lm_tools_bridge.agent.providers.failures import Failures, error_reason, retry_after
from support.clients.model_replies import DIALECTS, KEY, ask, keys, provider_of, question
from support.servers.models.formats.steps import say
from support.servers.models.model_server import Broken, Bytes, HangUp, Refuse, model_server

every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


async def failure(provider: object, stream: bool = True) -> ProviderFailure:
    with pytest.raises(ProviderFailure) as raised:
        await ask(provider, question(stream=stream))
    found = raised.value
    assert "\n" not in str(found)
    assert KEY not in str(found)
    return found


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize(
    ("dialect", "step"),
    [
        ("ollama", "start it with: ollama serve (to install it: https://ollama.com/download)"),
        ("openai", "start the server"),
    ],
)
async def test_a_refused_connection_says_what_to_start(dialect: str, step: str) -> None:
    base = f"http://127.0.0.1:{closed_port()}"
    async with provider_of(dialect, base) as provider:
        found = await failure(provider)
    assert found.provider == dialect
    assert found.cause.startswith(f"nothing listens at {base}")
    rest = (
        f"; or correct api_base of [agent.providers.{dialect}]; or use another model server with --provider"
    )
    assert found.next_step == f"{step}{rest}"


@every_dialect
async def test_a_wrong_key_says_where_to_put_the_right_one(dialect: str) -> None:
    async with model_server(key="another key") as server, provider_of(dialect, server) as provider:
        found = await failure(provider)
    assert found.cause == "the key was refused (401)"
    stored = "" if dialect == "ollama" else f", or store it with: lmtb secrets set {dialect}"
    assert found.next_step == f"set {dialect.upper()}_API_KEY{stored}"


@pytest.mark.parametrize("dialect", ["ollama", "openai", "anthropic"])
async def test_an_unknown_model_is_named_with_the_way_to_another(dialect: str) -> None:
    async with model_server() as server, provider_of(dialect, server) as provider:
        server.models = frozenset({"other"})
        found = await failure(provider)
    assert found.cause == "model small was not found (404: model 'small' not found)"
    step = (
        "fetch it with: ollama pull small" if dialect == "ollama" else "choose a model that the provider has"
    )
    assert found.next_step.startswith(step)


@every_dialect
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_too_many_requests_and_failures_are_tried_again(
    dialect: str, status: int, stream: bool
) -> None:
    turns = (Refuse(status), Refuse(status), Refuse(status), say("at last"))
    pauses: list[float] = []
    async with model_server(*turns) as server, provider_of(dialect, server, pauses=pauses) as provider:
        assert (await ask(provider, question(stream=stream))).text == "at last"
    assert pauses == [0.5, 1, 2]
    assert len(server.requests) == 4


async def test_after_three_more_tries_the_failure_stays() -> None:
    pauses: list[float] = []
    async with (
        model_server(*[Refuse(503, "busy")] * 9) as server,
        provider_of("openai", server, pauses=pauses) as provider,
    ):
        found = await failure(provider)
    assert len(server.requests) == 4
    assert len(pauses) == 3
    assert (
        str(found) == "openai: the server failed (503: busy); try again later, or look into the server's log"
    )


async def test_a_server_decides_how_long_to_wait_and_the_person_is_told() -> None:
    told: list[str] = []
    turn = Refuse(429, "slow down", {"Retry-After": "7"})
    pauses: list[float] = []
    async with (
        model_server(turn, say("ok")) as server,
        provider_of("openai", server, pauses=pauses, on_wait=told.append) as provider,
    ):
        await ask(provider)
    assert pauses == [7]
    assert told == ["openai: too many requests (429: slow down); trying again in 7 s"]


@pytest.mark.parametrize(
    ("turn", "cause", "step"),
    [
        (Refuse(429, "later", {"Retry-After": "3600"}), "too many requests (429: later)", "wait 3600 s, then try again"),
        (
            Refuse(429, body=b'{"error": {"message": "no credit", "code": "insufficient_quota"}}'),
            "too many requests (429: no credit)",
            "check the account with the provider",
        ),
        (Refuse(400, "too long"), "the request was refused (400: too long)", "choose another model, or start afresh with /clear"),
        (Refuse(403, "not here"), "the access was refused (403: not here)", "set OPENAI_API_KEY, or store it with: lmtb secrets set openai"),
        (Refuse(307, headers={"Location": "http://127.0.0.1:9/"}), "redirects elsewhere (307)", "correct api_base"),
    ],
    ids=["long wait", "no credit", "bad request", "forbidden", "redirect"],
)  # fmt: skip
async def test_what_another_try_cannot_help_is_told_at_once(turn: Refuse, cause: str, step: str) -> None:
    pauses: list[float] = []
    async with model_server(turn) as server, provider_of("openai", server, pauses=pauses) as provider:
        found = await failure(provider)
    assert cause in found.cause
    assert step in found.next_step
    assert (pauses, len(server.requests)) == ([], 1)


@every_dialect
async def test_a_cut_stream_is_told_and_not_repeated_after_output(dialect: str) -> None:
    turn = Broken(say(*["piece " for _ in range(40)]), 1500)
    pauses: list[float] = []
    async with model_server(turn) as server, provider_of(dialect, server, pauses=pauses) as provider:
        text = ""
        with pytest.raises(ProviderFailure, match=f"{dialect}: the reply was cut off; try again"):
            async for event in provider.reply(question()):
                text += getattr(event, "text", "")
    assert text.startswith("piece ")
    assert (pauses, len(server.requests)) == ([], 1)


@every_dialect
async def test_a_reply_that_ends_early_without_an_error_is_cut_as_well(dialect: str) -> None:
    """As when a proxy closes the stream in good order."""
    async with model_server(Bytes(b"")) as server, provider_of(dialect, server) as provider:
        found = await failure(provider)
    assert found.cause == "the reply was cut off"


@every_dialect
@pytest.mark.parametrize(
    "content",
    [
        b"<html>hello</html>",
        b"",
        b"[" * 100_000,
        b'"text"',
        b'{"choices": 3, "candidates": 3, "message": 3, "content": 3}',
    ],
)
async def test_what_is_no_reply_is_told(dialect: str, content: bytes) -> None:
    async with (
        model_server(Bytes(content, "application/json")) as server,
        provider_of(dialect, server) as provider,
    ):
        found = await failure(provider, stream=False)
    assert found.cause.startswith(
        ("the server sent something that is not JSON", "the server sent JSON of another form")
    )
    assert "check api_base" in found.next_step


@every_dialect
async def test_a_web_page_in_the_place_of_a_reply_is_told(dialect: str) -> None:
    page = Bytes(b"<html>Welcome</html>", "text/html")
    async with model_server(page) as server, provider_of(dialect, server) as provider:
        found = await failure(provider)
    assert found.cause.endswith("answered with a web page")
    assert found.next_step.startswith("correct api_base")


async def test_a_page_for_a_browser_is_not_quoted() -> None:
    page = Refuse(502, body=b"<html><body>Bad gateway</body></html>", headers={"Content-Type": "text/html"})
    pauses: list[float] = []
    async with model_server(*[page] * 4) as server, provider_of("openai", server, pauses=pauses) as provider:
        assert (await failure(provider)).cause == "the server failed (502)"


async def test_control_characters_of_a_server_are_escaped_and_its_text_is_shortened() -> None:
    body = b'{"error": "\\u001b[2J\\nx' + b"y" * 5000 + b'"}'
    async with model_server(Refuse(400, body=body)) as server, provider_of("ollama", server) as provider:
        found = await failure(provider)
    assert "\x1b" not in found.cause
    assert len(str(found)) < 500


async def test_a_provider_without_its_key_is_not_even_asked() -> None:
    async with provider_of("anthropic", "", keys()) as provider:
        found = await failure(provider)
    assert found.cause == "there is no key"
    assert found.next_step == "set ANTHROPIC_API_KEY, or store it with: lmtb secrets set anthropic"


async def test_a_key_that_no_header_can_hold_is_refused_without_being_shown() -> None:
    async with (
        model_server() as server,
        provider_of("openai", server, keys(OPENAI_API_KEY="ab\ncd")) as provider,
    ):
        found = await failure(provider)
    assert found.cause == "the key from OPENAI_API_KEY holds characters that no key has"
    assert not server.requests


async def test_an_unknown_host_is_told() -> None:
    async with provider_of("openai", "http://no-such-host.invalid/v1") as provider:
        assert "cannot be reached" in (await failure(provider)).cause


@pytest.mark.parametrize("base", ["not an address", "http://"])
async def test_what_is_no_address_is_told(base: str) -> None:
    async with provider_of("openai", base) as provider:
        assert "cannot be reached" in (await failure(provider)).cause


@pytest.mark.parametrize(("broken", "limit", "cause"), [
    (Broken(say("x"), 0, "silent"), {"first_byte_s": 0.05}, "no reply began within 0.05 s"),
    (Broken(say("x", "y"), 150, "silent"), {"answer_s": 0.05}, "the reply was not complete after 0.05 s"),
], ids=["first byte", "whole reply"])  # fmt: skip
async def test_each_deadline_has_its_own_text(broken: Broken, limit: dict[str, float], cause: str) -> None:
    async with model_server(broken) as server, provider_of("openai", server, **limit) as provider:
        found = await failure(provider)
    assert found.cause == cause
    assert next(iter(limit)) in found.next_step


async def test_a_reply_that_is_not_streamed_may_begin_late() -> None:
    """It begins when it is complete."""
    limits = {"first_byte_s": 0.01, "answer_s": 0.1}
    silent = Broken(say("x"), 0, "silent")
    async with model_server(silent) as server, provider_of("ollama", server, **limits) as provider:
        found = await failure(provider, stream=False)
    assert found.cause == "the reply was not complete after 0.1 s"


async def test_a_connection_that_nobody_accepts_has_a_deadline() -> None:
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    waiting = [socket.socket() for _ in range(4)]
    try:
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        base = f"http://127.0.0.1:{full.getsockname()[1]}"
        async with provider_of("ollama", base, connect_s=0.2) as provider:
            found = await failure(provider)
    finally:
        for one in (*waiting, full):
            one.close()
    assert found.cause == f"no connection to {base} within 0.2 s"
    assert "connect_s" in found.next_step


def test_parts_of_a_key_are_hidden_as_well() -> None:
    failures = Failures("openai", "openai", "http://x", "m", "hint", KEY)
    found = failures.of(f"Incorrect key {KEY[:12]}***, whole {KEY}.", "try")
    assert KEY[:7] not in str(found)
    assert str(found) == "openai: Incorrect key [hidden] whole [hidden].; try"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7), ("0.5", 0.5), ("Thu, 01 Jan 1970 00:01:10 GMT", 10), ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("soon", None), ("", None), ("-1", None)],
)  # fmt: skip
def test_retry_after_is_a_number_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_after({"Retry-After": value}, 60.0) == seconds


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error": {"message": "a"}}', "a"),
        (b'{"error": "b"}', "b"),
        (b'[{"error": {"message": "c"}}]', "c"),
        (b'{"message": {"detail": "d"}}', '{"detail": "d"}'),
        (b'{"detail": "e"}', "e"),
        (b"plain", "plain"),
        (b"<p>page</p>", ""),
        (b"", ""),
    ],
)
def test_the_reason_is_found_in_every_form_of_an_error(body: bytes, reason: str) -> None:
    assert error_reason(body) == reason


async def test_a_connection_that_was_closed_before_the_answer_is_opened_again() -> None:
    pauses: list[float] = []
    async with (
        model_server(say("one"), HangUp(), say("two")) as server,
        provider_of("openai", server, pauses=pauses) as provider,
    ):
        assert [(await ask(provider)).text, (await ask(provider)).text] == ["one", "two"]
    assert pauses == [0.5]


async def test_a_server_that_never_answers_a_connection_is_unreachable() -> None:
    pauses: list[float] = []
    async with (
        model_server(*[HangUp()] * 4) as server,
        provider_of("ollama", server, pauses=pauses) as provider,
    ):
        assert (await failure(provider)).cause == f"{server.url} cannot be reached: the connection was closed"


async def test_an_error_that_arrives_in_pieces_is_read_whole() -> None:
    body = b'{"error": {"message": "' + b"x" * 40_000 + b'", "code": "insufficient_quota"}}'
    pauses: list[float] = []
    async with (
        model_server(Refuse(429, body=body)) as server,
        provider_of("openai", server, pauses=pauses) as provider,
    ):
        assert (await failure(provider)).next_step == "check the account with the provider"
    assert pauses == []
