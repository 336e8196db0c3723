"""Does what buttons of the page ask for, and says in one sentence how it went."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from manager.admin.services import Services
from manager.replacement import Unusable
from protocol.errors import Refusal


class ActionResult(NamedTuple):
    """How an action went: whether it was done, and a sentence for the person."""

    ok: bool
    text: str


async def act(services: Services, name: str, members: Mapping[str, Any]) -> ActionResult:
    """Do one action. An unknown one, or one with wrong members, is refused."""
    action = _ACTIONS.get(name)
    if action is None:
        return ActionResult(False, "This page is older than the manager: reload it.")
    return await action(services, {key: value for key, value in members.items() if isinstance(value, str)})


async def _retry_source(services: Services, members: Mapping[str, str]) -> ActionResult:
    root, source = members.get("root"), members.get("source")
    if root is None or source is None:
        return ActionResult(False, "The request names no project or no source: reload the page.")
    answer = await services.ask_server(root, "refresh", source)
    if isinstance(answer, Refusal):
        return ActionResult(False, answer.message)
    return ActionResult(True, f"{source} is started again.")


async def _stop_call(services: Services, members: Mapping[str, str]) -> ActionResult:
    root, number, tool = members.get("root"), members.get("number"), members.get("tool")
    if root is None or number is None or tool is None:
        return ActionResult(False, "The request names no project or no call: reload the page.")
    answer = await services.ask_server(root, "stop_call", number)
    if isinstance(answer, Refusal):
        return ActionResult(False, answer.message)
    stopped = msgspec.json.decode(answer) == {"ok": True}
    return ActionResult(stopped, f"{tool} was stopped." if stopped else f"{tool} has ended already.")


async def _restart_manager(services: Services, members: Mapping[str, str]) -> ActionResult:
    version = await services.restart("asked on the page", keep_servers=True)
    if isinstance(version, Unusable):
        return ActionResult(False, f"The installed program cannot be started: {version.reason}")
    return ActionResult(True, f"The manager restarts as {version}; sessions are kept.")


_Action = Callable[[Services, Mapping[str, str]], Awaitable[ActionResult]]
_ACTIONS: Final[Mapping[str, _Action]] = {
    "retry-source": _retry_source,
    "stop-call": _stop_call,
    "restart-manager": _restart_manager,
}
