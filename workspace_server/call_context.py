"""Defines what a tool call knows beside its arguments: its caller, and how to notify and ask that caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from protocol import jsonrpc
from workspace_server.tool import RpcError


class Toolbox(Protocol):
    """The tools of the workspace as one call may use them: with the rights of its caller."""

    async def listed(self) -> list[Mapping[str, Any]]:
        """The definitions `tools/list` would show."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """`{"result": …}` or `{"error": …}`, as `tools/call` would answer; `tool_search` is a tool, too."""


Notify = Callable[[str, Mapping[str, Any]], Awaitable[None]]


async def unheard(method: str, params: Mapping[str, Any]) -> None:
    """The notifications of a call nobody listens to."""


Ask = Callable[[str, msgspec.Raw], Awaitable[msgspec.Raw | RpcError]]
"""Puts a request (`elicitation/create`, `sampling/createMessage`, `roots/list`) to the caller of a call.

Takes its method, and its parameters as JSON text, empty when absent. Gives its result as JSON text, or
why there is none."""


async def nobody(method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
    """The answer where there is no caller who could be asked."""
    return RpcError(jsonrpc.METHOD_NOT_FOUND, f"{method[:100]} is not offered here")


CALL_ENDED: Final = RpcError(jsonrpc.INTERNAL_ERROR, "the call this is about has ended")
"""The answer where the call has its outcome already: the question was about another one."""


def never_parked() -> bool:
    """The call of a caller who stays until there is an outcome."""
    return False


NO_ARGUMENTS: Final = msgspec.Raw(b"{}")


class CallContext(msgspec.Struct, frozen=True):
    """What a call knows beside its decoded arguments.

    Attributes:
        notify: sends one notification to the caller of exactly this call, before its result.
        ask: asks the caller of exactly this call something; takes as long as a person takes.
        is_parked: whether its caller was asked something and has gone to find an answer; it may never return.
        arguments: the JSON text of the arguments; a third party gets these bytes.
        params: the other members of the request's parameters as JSON text (`_meta`, `inputResponses`, …).
        caller: who calls, as far as that is known: the same text for all calls of one session.
        client: name of the calling program, from its `clientInfo`; may be empty.
        capabilities: what the calling client declared.
        toolbox: the tools a script may call; None where the depth is used up.
    """

    notify: Notify = unheard
    ask: Ask = nobody
    is_parked: Callable[[], bool] = never_parked
    arguments: msgspec.Raw = NO_ARGUMENTS
    params: Mapping[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    caller: str = ""
    client: str = ""
    capabilities: Mapping[str, Any] = msgspec.field(default_factory=dict)
    toolbox: Toolbox | None = None

    @property
    def meta(self) -> Mapping[str, msgspec.Raw]:
        """The members of the request's `_meta`, each as JSON text; empty when there is none."""
        raw = self.params.get("_meta")
        return {} if raw is None else msgspec.json.decode(raw, type=dict[str, msgspec.Raw])

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Send one progress notification, or do nothing when the caller gave no token."""
        token = self.meta.get("progressToken")
        if token is None:
            return
        members = {"progress": done, "total": total, "message": message}
        present = {key: value for key, value in members.items() if value is not None}
        await self.notify("notifications/progress", {"progressToken": token, **present})
