"""One listen stream of the manager to one workspace server: opened, acknowledged, heard to its end.

Which streams there are, and what is done with what they bring, is `upstream_subscriptions.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from manager.answers.upstream_request import manager_request
from manager.log import logger
from manager.supervision.instance import Instance
from manager.upstream.response import UpstreamFailure
from protocol import jsonrpc, names, sse

AGAIN_S: Final = 2.0
"""How long a stream that ended is left alone."""
REFUSED_S: Final = 30.0
"""The same for a server that does not offer one."""
HTTP_OK: Final = 200
EVENTS: Final = b"text/event-stream"
_LISTS: Final = {"toolsListChanged": True, "resourcesListChanged": True, "promptsListChanged": True}


class UpstreamListener:
    """Listens for changed lists and for updates of some resources. Run it in a task; cancelling that ends it.

    Args:
        promised: those of the resources that sessions were told of already. They are named first: a server
            leaves out what is too much for it.

    Attributes:
        workspace: what it listens for, by its id.
        instance: whom it listens to.
        uris: the resources it asks about.
        honoured: those the server will tell of, none if it refused; None before it said so.
        decided: set when `honoured` is known, or never will be.
        is_over: whether the stream has ended; only the wait behind it goes on.
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

    async def run(self, told: Callable[[UpstreamListener, str, dict[str, msgspec.Raw]], None]) -> None:
        """Listen until the stream ends, and then wait a while: one that ends is not begun anew at once.

        Args:
            told: called with each notification's method and parameters, the acknowledgement first.
        """
        is_offered = True
        try:
            is_offered = await self._listen(told)
        except (UpstreamFailure, sse.EventTooLarge) as failure:
            self._log(ended=str(failure) or type(failure).__name__)
        finally:
            self.is_over = True
            self.decided.set()
        await asyncio.sleep(AGAIN_S if is_offered else REFUSED_S)

    async def _listen(self, told: Callable[[UpstreamListener, str, dict[str, msgspec.Raw]], None]) -> bool:
        """Listen until the stream ends; False where there is none."""
        wanted = {**_LISTS, **({"resourceSubscriptions": self._named} if self._named else {})}
        request = manager_request(names.LISTEN, {"notifications": wanted}, f"listen-{self.workspace}")
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
                    self._heard(event.data, told)
            return True
        finally:
            await response.aclose()

    def _heard(
        self, data: bytes, told: Callable[[UpstreamListener, str, dict[str, msgspec.Raw]], None]
    ) -> None:
        match jsonrpc.parse(data):
            case jsonrpc.Notification(method, params):
                members = jsonrpc.members_of(params)
                if method == names.ACKNOWLEDGED:
                    self.honoured = _honoured(members)
                    self.decided.set()
                told(self, method, members)
            case jsonrpc.Malformed():
                self._log(why="what it sent is no message")

    def _log(self, **why: object) -> None:
        logger().info("listen", workspace=self.workspace, **why)


def _honoured(params: dict[str, msgspec.Raw]) -> frozenset[str]:
    raw = jsonrpc.members_of(params.get("notifications", b"{}")).get("resourceSubscriptions")
    try:
        return frozenset(msgspec.json.decode(raw, type=list[str]) if raw is not None else ())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return frozenset()
