"""The near end of a line, whose tool is played by small programs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
import pytest

from lm_tools_bridge.remote_hosts.line_failures import FailureKind, LineFailure
from lm_tools_bridge.remote_hosts.tunnel import near_end
from lm_tools_bridge.remote_hosts.tunnel.greeting import PROTOCOL, Greeting, encode
from lm_tools_bridge.remote_hosts.tunnel.near_end import NearEnd, open_line

HELLO = encode(Greeting(PROTOCOL, "1.2.3", "build", "ada")).decode().strip()


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that does not end by itself is killed sooner."""
    monkeypatch.setattr(near_end, "KILL_AFTER_S", 0.3)


async def opened(script: str, patience_s: float = 20) -> NearEnd | LineFailure:
    """What comes of a tool that is a script of shell."""
    return await open_line(["sh", "-c", script], dict(os.environ), patience_s=patience_s)


async def failed(script: str, patience_s: float = 20) -> LineFailure:
    """Why there is no line; nothing of the tool is left then."""
    found = await opened(script, patience_s)
    assert isinstance(found, LineFailure)
    assert not psutil.Process().children()
    return found


@asynccontextmanager
async def line(script: str) -> AsyncIterator[NearEnd]:
    """A line; its tool has ended at the end."""
    found = await opened(script)
    assert isinstance(found, NearEnd), found
    try:
        yield found
    finally:
        found.close()
        await found.reap()
        assert not psutil.pid_exists(found.pid)


def says(text: str) -> str:
    """A command of shell that prints a line."""
    return f"printf '%s\\n' '{text}'"


async def test_the_greeting_is_found_behind_what_a_login_prints() -> None:
    async with line(f"echo Welcome; {says(HELLO)}; cat >/dev/null") as found:
        assert (found.greeting.version, found.greeting.host) == ("1.2.3", "build")
        assert found.carrier.is_open


async def test_the_end_of_the_tool_ends_the_line() -> None:
    async with line(f"{says(HELLO)}; echo last words >&2") as found:
        async with asyncio.timeout(10):
            await found.ended.wait()
        await found.reap()
        assert (found.why, found.carrier.is_open) == ("the line ended", False)
        assert found.said() == ["last words"]


async def test_a_tool_that_is_not_installed_is_named() -> None:
    found = await open_line(["/nowhere/ssh"], {})
    assert found == LineFailure(FailureKind.NO_TOOL, ("/nowhere/ssh: No such file or directory",))


async def test_a_program_that_is_missing_there_is_told_by_its_exit_code() -> None:
    found = await failed("echo 'sh: lmtb: not found' >&2; exit 127")
    assert found == LineFailure(FailureKind.NOT_INSTALLED, ("sh: lmtb: not found",))


async def test_a_program_there_may_say_why_it_cannot_serve() -> None:
    problem = Greeting(PROTOCOL, "1", problem="no room\x1b[2J" + "x" * 1000)
    found = await failed(f"{says(encode(problem).decode().strip())}; cat >/dev/null")
    assert found.kind is FailureKind.CANNOT_SERVE
    (said,) = found.said
    assert said.startswith("no room")
    assert "\x1b" not in said
    assert len(said) <= 400


async def test_another_protocol_is_told_with_its_version() -> None:
    greeting = encode(Greeting(PROTOCOL + 1, "9.9\x1b[31m")).decode().strip()
    found = await failed(f"{says(greeting)}; cat >/dev/null")
    assert found.kind is FailureKind.OTHER_PROTOCOL
    assert "9.9" in found.said[0]
    assert "\x1b" not in found.said[0]


@pytest.mark.parametrize(
    "script",
    ["exec sleep 60", "trap '' TERM; sleep 60 & wait", "cat >/dev/null"],
    ids=["silent", "stubborn", "eager"],
)
async def test_a_host_that_never_greets_is_given_up(script: str) -> None:
    assert (await failed(script, patience_s=0.2)).kind is FailureKind.UNREACHABLE


async def test_endless_text_instead_of_a_greeting_is_given_up() -> None:
    found = await failed("exec yes Ignore all of the above")
    assert found.kind is FailureKind.UNREACHABLE
    assert sum(map(len, found.said)) < 2000


async def test_an_endless_error_is_read_and_its_end_is_kept() -> None:
    flood = "import sys; sys.stderr.write('x' * 5_000_000 + '\\n' * 1000 + '\\x1b[31mlast\\n')"
    found = await failed(f'{sys.executable} -I -c "{flood}"; exit 1')
    assert found.kind is FailureKind.UNREACHABLE
    assert len(found.said) <= 20
    assert all(len(said) <= 400 for said in found.said)
    assert found.said[-1].endswith("last")
    assert "\x1b" not in str(found.said)


async def test_a_cancelled_attempt_leaves_no_process() -> None:
    attempt = asyncio.create_task(opened("exec sleep 60"))
    async with asyncio.timeout(10):
        while not psutil.Process().children():
            await asyncio.sleep(0.01)
    attempt.cancel()
    await asyncio.gather(attempt, return_exceptions=True)
    assert attempt.cancelled()
    assert not psutil.Process().children()


async def test_the_tool_has_no_terminal_and_asks_no_window() -> None:
    found = await failed('echo "$SSH_ASKPASS_REQUIRE $(ps -o tty= -p $$)" >&2; exit 1')
    assert found.said == ("never ?",)


async def test_frames_that_are_none_end_the_line_and_its_tool() -> None:
    async with line(f"{says(HELLO)}; head -c 100 /dev/zero; exec sleep 60") as found:
        async with asyncio.timeout(10):
            await found.ended.wait()
        assert "broke the protocol" in found.why
