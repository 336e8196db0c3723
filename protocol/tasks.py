"""The tasks extension on the wire (SEP-2663): its names, who may have tasks, and whose a task is.

Only what manager and workspace server must agree on. What a task is and does is
`workspace_server/tasks/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from protocol import jsonrpc
from protocol.inbound import MISSING_CAPABILITY, Rejection

EXTENSION: Final = "io.modelcontextprotocol/tasks"
GET: Final = "tasks/get"
UPDATE: Final = "tasks/update"
CANCEL: Final = "tasks/cancel"
METHODS: Final = frozenset({GET, UPDATE, CANCEL})
CHANGED: Final = "notifications/tasks"
RESULT_TYPE: Final = "task"
"""The `resultType` of an answer that is a task and no result."""
REQUIRED: Final[Mapping[str, Any]] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
_ID: Final = re.compile(r"([a-z0-9-]{1,64})\.([0-9a-f]{32})")


def is_declared(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client that declares these capabilities knows tasks."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, Mapping) and isinstance(extensions.get(EXTENSION), Mapping)


def without_tasks(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """The same capabilities without tasks."""
    if not is_declared(capabilities):
        return dict(capabilities)
    rest = {key: one for key, one in capabilities["extensions"].items() if key != EXTENSION}
    others = {key: one for key, one in capabilities.items() if key != "extensions"}
    return {**others, "extensions": rest} if rest else others


def missing_capability(identity: bytes | None, what: str) -> Rejection:
    """The answer to a client that did not declare the extension for a request that needs it."""
    text = f"{what} needs the client capability extensions[{EXTENSION!r}]"
    return Rejection(400, MISSING_CAPABILITY, text, identity, REQUIRED)


def unknown_task(identity: bytes | None, task: str) -> Rejection:
    """The answer about a task that does not exist, or does not any more."""
    return Rejection(200, jsonrpc.INVALID_PARAMS, f"there is no task {task[:200]}", identity)


def task_id(workspace: str, key: str) -> str:
    """The id of a task.

    Args:
        workspace: id of the workspace it belongs to, so that requests about it find their way.
        key: 32 hexadecimal digits that nobody can guess: who knows them may ask.
    """
    return f"{workspace}.{key}"


def workspace_of(task: str) -> str | None:
    """The workspace an id of ours names, or None for another's id."""
    found = _ID.fullmatch(task)
    return None if found is None else found[1]


def key_of(task: str, workspace: str) -> str | None:
    """The key in an id of this workspace's, or None for another id."""
    found = _ID.fullmatch(task)
    return found[2] if found is not None and found[1] == workspace else None
