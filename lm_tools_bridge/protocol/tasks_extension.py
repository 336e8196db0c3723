"""The MCP tasks extension (SEP-2663): names, capability checks and the format of task ids.

`workspace_server/tasks/` runs tasks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.inbound import MISSING_CAPABILITY, Rejection

EXTENSION: Final = "io.modelcontextprotocol/tasks"
GET: Final = "tasks/get"
UPDATE: Final = "tasks/update"
CANCEL: Final = "tasks/cancel"
METHODS: Final = frozenset({GET, UPDATE, CANCEL})
CHANGED: Final = "notifications/tasks"
RESULT_TYPE: Final = "task"
"""The `resultType` of a response that is a task instead of a result."""
REQUIRED: Final[Mapping[str, Any]] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
_ID: Final = re.compile(r"([a-z0-9-]{1,64})\.([0-9a-f]{32})")


def is_declared(capabilities: Mapping[str, Any]) -> bool:
    """Whether these client capabilities include tasks."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, Mapping) and isinstance(extensions.get(EXTENSION), Mapping)


def without_tasks(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """The capabilities without tasks."""
    if not is_declared(capabilities):
        return dict(capabilities)
    rest = {key: value for key, value in capabilities["extensions"].items() if key != EXTENSION}
    others = {key: value for key, value in capabilities.items() if key != "extensions"}
    return {**others, "extensions": rest} if rest else others


def missing_capability(identity: bytes | None, what: str) -> Rejection:
    """The rejection of a request that needs tasks from a client that did not declare them."""
    text = f"{what} needs the client capability extensions[{EXTENSION!r}]"
    return Rejection(400, MISSING_CAPABILITY, text, identity, REQUIRED)


def unknown_task(identity: bytes | None, task: str) -> Rejection:
    """The rejection of a request about a task that does not exist (any more)."""
    return Rejection(200, jsonrpc.INVALID_PARAMS, f"there is no task {task[:200]}", identity)


def task_id(workspace: str, key: str) -> str:
    """Build a task id.

    Args:
        workspace: id of its workspace, for routing requests about the task.
        key: 32 random hexadecimal digits. Whoever knows them has access to the task.
    """
    return f"{workspace}.{key}"


def workspace_of(task: str) -> str | None:
    """The workspace that a task id names; None for an id in another format."""
    match = _ID.fullmatch(task)
    return None if match is None else match[1]


def key_of(task: str, workspace: str) -> str | None:
    """The key in a task id of this workspace; None for any other id."""
    match = _ID.fullmatch(task)
    return match[2] if match is not None and match[1] == workspace else None
