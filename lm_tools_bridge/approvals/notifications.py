"""Tells the desktop of what waits for a person, rarely. Does nothing without a session bus.

One notification at a time: a new one replaces the last. Desktops that read markup in a text get it escaped.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from lm_tools_bridge.approvals.board import ApprovalBoard
from lm_tools_bridge.machine.own_process import with_session_folder
from manager.attention import Attention, attention_items
from manager.log import logger

if TYPE_CHECKING:
    from dbus_fast import Message
    from dbus_fast.aio import MessageBus


NAME: Final = "org.freedesktop.Notifications"
PATH: Final = "/org/freedesktop/Notifications"
APPLICATION: Final = "LM Tools Bridge"
_DEFAULT_EXPIRY: Final = -1
"""The desktop decides how long a notification stays, as its specification says of -1."""


class DesktopFailure(Exception):
    """The desktop cannot be told; the message says why."""


def session_bus(environ: Mapping[str, str]) -> str | None:
    """The address of the user's session bus; None if there is none."""
    if address := environ.get("DBUS_SESSION_BUS_ADDRESS"):
        return address
    folder = with_session_folder(environ).get("XDG_RUNTIME_DIR")
    socket = Path(folder or "/", "bus")
    return f"unix:path={socket}" if folder and socket.is_socket() else None


class Desktop:
    """The notification service behind one session bus. Connects when it is first used, and again."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._bus: MessageBus | None = None
        self._reads_markup = True
        self._last = 0

    async def show(self, title: str, body: str) -> None:
        """Show a notification in place of the last one; both texts are plain.

        Raises:
            DesktopFailure: there is no bus, no notification service, or it refused.
        """
        reply = await self._call("Notify", "susssasa{sv}i", await self._arguments(title, body))
        self._last = int(reply[0])

    async def withdraw(self) -> None:
        """Remove the last notification, if there is one. Raises as `show`."""
        last, self._last = self._last, 0
        if last:
            await self._call("CloseNotification", "u", [last])

    def close(self) -> None:
        """Leave the bus. Idempotent."""
        bus, self._bus = self._bus, None
        if bus is not None:
            bus.disconnect()

    async def _arguments(self, title: str, body: str) -> list[Any]:
        from dbus_fast import Variant

        if self._bus is None:
            (capabilities,) = await self._call("GetCapabilities", "", [])
            self._reads_markup = "body-markup" in capabilities
        text = escape(body, quote=False) if self._reads_markup else body
        hints = {"urgency": Variant("y", 1), "category": Variant("s", "im")}
        return [APPLICATION, self._last, "", title, text, [], hints, _DEFAULT_EXPIRY]

    async def _call(self, member: str, signature: str, body: list[Any]) -> list[Any]:
        try:
            from dbus_fast import Message, MessageType

            bus = await self._connected()
            message = Message(NAME, PATH, NAME, member, signature=signature, body=body)
            reply = await bus.call(message)
        except (OSError, EOFError, ValueError) as error:
            self.close()
            raise DesktopFailure(str(error) or type(error).__name__) from error
        if reply is None or reply.message_type is MessageType.ERROR:
            self.close()
            raise DesktopFailure(_reason(reply))
        return reply.body

    async def _connected(self) -> MessageBus:
        from dbus_fast.aio import MessageBus

        if self._bus is None or not self._bus.connected:
            self._bus = await MessageBus(bus_address=self._address).connect()
        return self._bus


def _reason(reply: Message | None) -> str:
    return "no answer" if reply is None else str(reply.error_name)


PAUSE_S: Final = 10.0
"""Shortest time between two notifications; what comes meanwhile is in the next one."""
MOST_PER_HOUR: Final = 20
"""Notifications an hour: a person turns off what tells more."""
FOR_APPROVALS: Final = 5
"""How many of them only calls that wait for approval may use."""
HOUR_S: Final = 3600.0
"""The hour of `MOST_PER_HOUR`, in seconds."""
REMEMBERED_S: Final = 1800.0
"""How long a thing that no longer waits is remembered, so that one which comes and goes is told once."""
MOST_LINES: Final = 4
"""Lines of one notification; a last line counts the rest, which a desktop would cut without a word."""
TITLE: Final = "LM Tools Bridge"


class Notice(NamedTuple):
    """A notification: plain text."""

    title: str
    body: str


class Close(NamedTuple):
    """The last notification is out of date: nothing of it waits any more."""


class Throttle:
    """The state between two looks at what waits."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._untold: dict[str, Attention] = {}
        self._shown: frozenset[str] = frozenset()
        self._sent: deque[float] = deque(maxlen=MOST_PER_HOUR)

    def may_tell(self, now: float) -> bool:
        """Whether something waits that the person was not told of, and that can be told now."""
        if not self._untold or (self._sent and now - self._sent[-1] < PAUSE_S):
            return False
        is_approval = any(thing.kind == "approval" for thing in self._untold.values())
        most = MOST_PER_HOUR if is_approval else MOST_PER_HOUR - FOR_APPROVALS
        return sum(now - at < HOUR_S for at in self._sent) < most

    def next(self, waiting: Sequence[Attention], now: float) -> Notice | Close | None:
        """What to do about what waits now; `now` is in seconds of a monotonic clock."""
        keys = {thing.key for thing in waiting}
        self._seen = {key: at for key, at in self._seen.items() if now - at < REMEMBERED_S}
        is_untold = self._untold.keys() | (keys - self._seen.keys())
        self._untold = {thing.key: thing for thing in waiting if thing.key in is_untold}
        self._seen.update(dict.fromkeys(keys, now))
        if self.may_tell(now):
            return self._notice(now)
        if self._shown and not self._shown & keys:
            self._shown = frozenset()
            return Close()
        return None

    def _notice(self, now: float) -> Notice:
        things, self._untold = list(self._untold.values()), {}
        self._sent.append(now)
        self._shown = frozenset(thing.key for thing in things)
        lines = [f"{thing.text}: {thing.next_step}" for thing in things[:MOST_LINES]]
        more = len(things) - MOST_LINES
        title = f"{TITLE} needs you" if len(things) == 1 else f"{TITLE}: {len(things)} things need you"
        return Notice(title, "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])]))


LOOK_S: Final = 1.0
"""How often calls that wait for approval are looked at; that costs next to nothing."""
STATUS_EVERY: Final = 10
"""Every how many looks the whole status is read, for what waits else."""
DEADLINE_S: Final = 5.0
"""Longest time that the desktop gets: one that hangs must not end the looks."""
AFTER_FAILURE_S: Final = 60.0
"""Pause after a failure, so that a desktop that refuses is not asked every second."""


class Shows(Protocol):
    """A desktop."""

    async def show(self, title: str, body: str) -> None:
        """See `Desktop`."""

    async def withdraw(self) -> None:
        """See `Desktop`."""

    def close(self) -> None:
        """See `Desktop`."""


async def notify_desktop(status: Callable[[], dict[str, Any]], approvals: ApprovalBoard) -> None:
    """Run until cancelled; return at once if notifications cannot be shown here."""
    if find_spec("dbus_fast") is None:
        return
    address = session_bus(os.environ)
    if address is None:
        return
    await Notifications(Desktop(address), status, approvals).run()


class Notifications:
    """Tells a desktop what waits.

    Args:
        desktop: where it is shown.
        status: the status as `/mcp/status` shows it.
        approvals: the calls that wait.
    """

    def __init__(
        self,
        desktop: Shows,
        status: Callable[[], Mapping[str, Any]],
        approvals: ApprovalBoard,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._desktop = desktop
        self._status = status
        self._approvals = approvals
        self._now = now
        self._sleep = sleep
        self._throttle = Throttle()
        self._looks = 0
        self._changes = 0
        self._has_failed = False

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                await self._sleep(LOOK_S if await self._look_safely() else AFTER_FAILURE_S)
        finally:
            self._desktop.close()

    async def _look_safely(self) -> bool:
        try:
            return await self.look()
        except Exception as fault:  # noqa: BLE001  the next look may succeed
            self._report(fault)
            return False

    async def look(self) -> bool:
        """Look once; False if the desktop could not be told."""
        self._looks += 1
        is_due = self._looks % STATUS_EVERY == 1 or self._throttle.may_tell(self._now())
        if self._approvals.changes == self._changes and not is_due:
            return True
        self._changes = self._approvals.changes
        step = self._throttle.next(attention_items(self._status()), self._now())
        if step is None:
            return True
        try:
            async with asyncio.timeout(DEADLINE_S):
                await (self._desktop.withdraw() if isinstance(step, Close) else self._desktop.show(*step))
        except (DesktopFailure, TimeoutError) as failure:
            self._report(failure)
            return False
        self._has_failed = False
        return True

    def _report(self, failure: Exception) -> None:
        if not self._has_failed:
            is_late = isinstance(failure, TimeoutError)
            why = "it did not answer in time" if is_late else str(failure) or type(failure).__name__
            logger().warning("notifications.failed", why=why)
        self._has_failed = True
