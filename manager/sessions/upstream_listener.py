"""Holds one `subscriptions/listen` stream from the manager to a workspace server.

`upstream_subscriptions.py` decides which streams there are and handles what they bring.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names, sse
from manager.answers.upstream_request import manager_request
from manager.logs.log import logger
from manager.supervision.instance import Instance
from manager.upstream.failures import UpstreamFailure

RETRY_S: Final = 2.0
"""Seconds to wait after a stream has ended."""
REFUSED_RETRY_S: Final = 30.0
"""Seconds to wait after a server has refused to open a stream."""
HTTP_OK: Final = 200
EVENTS: Final = b"text/event-stream"
_LISTS: Final = {"toolsListChanged": True, "resourcesListChanged": True, "promptsListChanged": True}

OnNotification = Callable[["UpstreamListener", str, dict[str, msgspec.Raw]], None]


class UpstreamListener:
    """Listens for list changes and for updates of some resources. Run it in a task; cancel that to stop.

    Args:
        promised: resources that were confirmed to sessions before. They come first in the request, because a
            server leaves out what exceeds its limit.

    Attributes:
        workspace: id of the workspace.
        instance: the server that is asked.
        uris: the resources that are asked for.
        honoured: the resources that the server acknowledged, none if it refused; None before that.
        decided: set when `honoured` is known, or never will be.
        is_over: whether the stream has ended, even if `run` still waits.
    """

    def __init__(
        self, workspace: str, instance: Instance, uris: frozenset[str], promised: Collection[str] = ()
    ) -> None:
        self.workspace = workspace
        self.instance = instance
        self.uris = uris
        self.honoured: frozenset[str] | None = None
        self.decided = asyncio.Event()
        self.is_over = False
        self._named = sorted(uris, key=lambda uri: (uri not in promised, uri))

    async def run(self, on_notification: OnNotification) -> None:
        """Listen until the stream ends, then wait before returning, so that it is not reopened at once.

        Args:
            on_notification: called with each notification's method and parameters, the acknowledgement first.
        """
        is_offered = True
        try:
            is_offered = await self._listen(on_notification)
        except (UpstreamFailure, sse.EventTooLarge) as failure:
            self._log(ended=str(failure) or type(failure).__name__)
        finally:
            self.is_over = True
            self.decided.set()
        await asyncio.sleep(RETRY_S if is_offered else REFUSED_RETRY_S)

    async def _listen(self, on_notification: OnNotification) -> bool:
        """Listen until the stream ends; False if the server refused to open one."""
        notifications = {**_LISTS, **({"resourceSubscriptions": self._named} if self._named else {})}
        request = manager_request(names.LISTEN, {"notifications": notifications}, f"listen-{self.workspace}")
        head = (*request.headers, self.instance.credentials())
        response = await self.instance.pool.request(b"POST", request.target, head, request.body)
        decoder = sse.Decoder()
        try:
            kind = response.head.content_type
            if response.head.status != HTTP_OK or kind != EVENTS:
                self._log(refused=response.head.status)
                self.honoured = frozenset()
                return False
            async for chunk in response.chunks():
                for event in decoder.feed(chunk):
                    self._receive(event.data, on_notification)
            return True
        finally:
            response.abandon()

    def _receive(self, data: bytes, on_notification: OnNotification) -> None:
        match jsonrpc.parse(data):
            case jsonrpc.Notification(method, params):
                members = jsonrpc.members_of(params)
                if method == names.ACKNOWLEDGED:
                    self.honoured = _honoured(members)
                    self.decided.set()
                on_notification(self, method, members)
            case jsonrpc.Malformed():
                self._log(why="it sent something that is not JSON-RPC")

    def _log(self, **why: object) -> None:
        logger().info("listen", workspace=self.workspace, **why)


def _honoured(params: dict[str, msgspec.Raw]) -> frozenset[str]:
    raw = jsonrpc.members_of(params.get("notifications", b"{}")).get("resourceSubscriptions")
    try:
        return frozenset(msgspec.json.decode(raw, type=list[str]) if raw is not None else ())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return frozenset()
