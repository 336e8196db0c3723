"""A real session bus with a scripted notification service: what a desktop would show."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.approvals.notifications import NAME, Desktop, DesktopFailure

dbus_fast = pytest.importorskip("dbus_fast", reason="the extra desktop is not installed")
from dbus_fast.aio import MessageBus  # noqa: E402  after the check for the extra

pytestmark = [
    pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="dbus-daemon is not installed"),
]


@asynccontextmanager
async def session_bus() -> AsyncIterator[str]:
    """A session bus of our own; its address."""
    process = await asyncio.create_subprocess_exec(
        *("dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.wait()


class Service:
    """A notification service that keeps what it is asked."""

    def __init__(self, *capabilities: str) -> None:
        self.capabilities = list(capabilities)
        self.asked: list[tuple[str, list[Any]]] = []

    @asynccontextmanager
    async def running(self, address: str) -> AsyncIterator[None]:
        bus = await MessageBus(bus_address=address).connect()
        bus.add_message_handler(self._answer)
        await bus.request_name(NAME)
        try:
            yield
        finally:
            bus.disconnect()

    def _answer(self, message: Any) -> Any:
        if message.interface != NAME or message.message_type is not dbus_fast.MessageType.METHOD_CALL:
            return None
        self.asked.append((message.member, message.body))
        answers = {"GetCapabilities": ("as", [self.capabilities]), "Notify": ("u", [len(self.asked)])}
        return dbus_fast.Message.new_method_return(message, *answers.get(message.member, ("", [])))


async def test_a_notification_is_shown_replaced_and_withdrawn() -> None:
    service = Service("body", "body-markup")
    async with session_bus() as address, service.running(address):
        desktop = Desktop(address)
        await desktop.show("One", "a <b>bold</b> & plain")
        await desktop.show("Two", "b")
        await desktop.withdraw()
        await desktop.withdraw()
        desktop.close()
    (_, _), (notify, first), (_, second), *rest = service.asked
    assert notify == "Notify"
    assert first[:2] == ["LM Tools Bridge", 0]
    assert first[3:6] == ["One", "a &lt;b&gt;bold&lt;/b&gt; &amp; plain", []]
    assert second[1] == 2, "it replaces the first one"
    assert rest == [("CloseNotification", [3])]


async def test_a_desktop_without_markup_gets_the_text_as_it_is() -> None:
    service = Service("body")
    async with session_bus() as address, service.running(address):
        desktop = Desktop(address)
        await desktop.show("One", "a <b>")
        desktop.close()
    assert service.asked[-1][1][4] == "a <b>"


async def test_a_bus_without_a_notification_service_is_a_failure() -> None:
    async with session_bus() as address:
        with pytest.raises(DesktopFailure, match="ServiceUnknown"):
            await Desktop(address).show("One", "a")


async def test_a_bus_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(DesktopFailure):
        await Desktop(f"unix:path={tmp_path}/bus").show("One", "a")
