"""A host whose manager answers what no manager would: its answers have the limits of any server's."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from lm_tools_bridge.remote_hosts import far_approvals, link
from lm_tools_bridge.remote_hosts.address import Host
from lm_tools_bridge.remote_hosts.line_failures import LineFailure
from lm_tools_bridge.remote_hosts.link import Link
from lm_tools_bridge.remote_hosts.tunnel.near_end import NearEnd, open_line
from manager.configuration.settings import Settings
from manager.state_file import Store
from manager.supervision.dependencies import Dependencies
from manager.upstream.failures import UpstreamFailure
from support.heard_calls import HeardCalls

pytestmark = pytest.mark.asyncio(loop_scope="module")
HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
FAR = """
import asyncio, sys
from pathlib import Path
from lm_tools_bridge.remote_hosts.tunnel.greeting import PROTOCOL, Greeting
from lm_tools_bridge.remote_hosts.tunnel.far_end import private_pipes, serve

async def find(target, *, again=False):
    return Path(sys.argv[1])

asyncio.run(serve(private_pipes(), Greeting(PROTOCOL, "1"), find))
"""


class Hostile:
    """A line to a host whose manager is healthy, and then answers this, again and again if it is endless."""

    def __init__(self, folder: Path) -> None:
        self.answer = b""
        self.is_endless = False
        self.path = folder / "s"
        dependencies = Dependencies(
            Settings(), Store(folder / "state.db", set_aside_name=lambda: "x"), folder, {}
        )
        self.link = Link("build", Host("ssh", "build"), ("lmtb",), dependencies, open_line=self._open)

    async def _open(self, command: Sequence[str], environ: Mapping[str, str]) -> NearEnd | LineFailure:
        return await open_line([sys.executable, "-c", FAR, str(self.path)], {})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEALTHY)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.answer)
        try:
            while self.is_endless:
                await writer.drain()
                writer.write(b"x" * 65536)
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def asked(self) -> str:
        """The cause of the failure."""
        with pytest.raises(UpstreamFailure) as caught:
            await self.link.ask("/resolve", {"cwd": "/srv/app"})
        return caught.value.cause


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hostile(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hostile]:
    made = Hostile(tmp_path_factory.mktemp("h"))
    async with await asyncio.start_unix_server(made.serve, str(made.path)):
        assert isinstance(await made.link.ensure(), NearEnd)
        yield made
        await made.link.close()


@pytest.mark.parametrize(
    "head", [b"Content-Length: 9999999999\r\n\r\n", b"\r\n"], ids=["a length", "no length"]
)
async def test_an_endless_answer_is_cut(hostile: Hostile, head: bytes) -> None:
    before = psutil.Process().memory_info().rss
    hostile.answer, hostile.is_endless = b"HTTP/1.1 200 OK\r\n" + head, True
    assert await hostile.asked() == "timeout"
    assert psutil.Process().memory_info().rss - before < 3 * link.MAX_ANSWER
    assert hostile.link.is_up


@pytest.mark.parametrize("begun", [b"", b'data: {"now":1,"approvals":['], ids=["a line", "an event"])
async def test_reports_of_calls_without_end_are_given_up(hostile: Hostile, begun: bytes) -> None:
    hostile.answer, hostile.is_endless = b"HTTP/1.1 200 OK\r\n\r\n" + begun, True
    before, heard = psutil.Process().memory_info().rss, HeardCalls()

    async def sleep(seconds: float) -> None:
        if seconds == far_approvals.RETRY_S:
            raise asyncio.CancelledError

    line = hostile.link.line
    assert line is not None
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await far_approvals.FarApprovals(lambda _: None, heard, sleep=sleep).hear(hostile.link, line)
    assert psutil.Process().memory_info().rss - before < 3 * link.MAX_ANSWER
    assert heard.ids() == []
    assert hostile.link.is_up


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (b"SSH-2.0-x\r\n\r\n", "malformed_response"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 200_000 + b"\r\n\r\n", "head_too_large"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n12345", "malformed_response"),
    ],
    ids=["another protocol", "a long head", "two lengths"],
)
async def test_an_answer_that_is_none_is_a_failure(hostile: Hostile, answer: bytes, cause: str) -> None:
    hostile.answer, hostile.is_endless = answer, False
    assert await hostile.asked() == cause
    assert hostile.link.is_up


async def test_an_answer_that_never_comes_is_given_up(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "ANSWER_S", 0.3)
    hostile.answer, hostile.is_endless = b"", False
    assert await hostile.asked() == "timeout"
    assert hostile.link.is_up
