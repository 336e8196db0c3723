"""Shows notifications on the user's desktop: org.freedesktop.Notifications on the session bus, by dbus-fast.

One notification at a time: a new one replaces the last. Desktops that read markup in a text get it escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.machine.own_process import with_session_folder

if TYPE_CHECKING:
    from dbus_fast import Message
    from dbus_fast.aio import MessageBus

NAME: Final = "org.freedesktop.Notifications"
PATH: Final = "/org/freedesktop/Notifications"
APPLICATION: Final = "LM Tools Bridge"
_DEFAULT_EXPIRY: Final = -1


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
