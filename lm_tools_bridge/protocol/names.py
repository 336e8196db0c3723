"""Names on the wire: revisions, methods, `_meta` keys, tools, resource URIs, environment variables, paths.

`headers.py` has header names, `errors.py` error codes.

Legacy revisions (up to 2025-11-25) have `initialize` and sessions. In modern revisions (from 2026-07-28)
every request carries its own version and capabilities.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

USUAL_PORT: Final = 47100
"""The manager's port, unless its user configured another one."""


class Era(Enum):
    """The family of MCP revisions that a message belongs to."""

    LEGACY = "legacy"
    MODERN = "modern"


LEGACY_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST_LEGACY: Final = LEGACY_REVISIONS[-1]
ASSUMED_LEGACY: Final = "2025-03-26"
"""The revision of a request without `MCP-Protocol-Version` (MCP 2025-06-18, Transports)."""
MODERN_REVISIONS: Final = ("2026-07-28",)
LATEST_MODERN: Final = MODERN_REVISIONS[-1]


def era_of(revision: str) -> Era | None:
    """The era of a revision; None for an unsupported one."""
    if revision in LEGACY_REVISIONS:
        return Era.LEGACY
    return Era.MODERN if revision in MODERN_REVISIONS else None


def numbers_events(revision: str) -> bool:
    """Whether a legacy revision has event ids and resumable streams."""
    return revision >= "2025-03-26"


def primes_streams(revision: str) -> bool:
    """Whether a legacy revision has priming events and `retry` (MCP 2025-11-25, Transports)."""
    return revision >= "2025-11-25"


def negotiate(requested: object) -> str:
    """The revision for an `initialize` result: the requested legacy revision, else the latest legacy one."""
    return requested if isinstance(requested, str) and requested in LEGACY_REVISIONS else LATEST_LEGACY


# Methods -------------------------------------------------------------------------------------------------
INITIALIZE: Final = "initialize"
INITIALIZED: Final = "notifications/initialized"
CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
MESSAGE: Final = "notifications/message"
ELICITED: Final = "notifications/elicitation/complete"
PING: Final = "ping"
ROOTS_LIST: Final = "roots/list"
ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
SET_LEVEL: Final = "logging/setLevel"
DISCOVER: Final = "server/discover"
LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
TOOLS_LIST: Final = "tools/list"
TOOLS_CALL: Final = "tools/call"
RESOURCES_LIST: Final = "resources/list"
RESOURCES_READ: Final = "resources/read"
SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
TEMPLATES_LIST: Final = "resources/templates/list"
PROMPTS_LIST: Final = "prompts/list"
PROMPTS_GET: Final = "prompts/get"
COMPLETE: Final = "completion/complete"
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
RESOURCES_CHANGED: Final = "notifications/resources/list_changed"
PROMPTS_CHANGED: Final = "notifications/prompts/list_changed"
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
RESOURCE_UPDATED: Final = "notifications/resources/updated"
LISTS_CHANGED: Final = (RESOURCES_CHANGED, PROMPTS_CHANGED, TOOLS_CHANGED)
"""Tools last: a client that then lists again at once sees all changes."""

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Values of `logging/setLevel` and `META_LOG_LEVEL`, the most verbose first."""

NAMED_PARAM: Final = {
    TOOLS_CALL: "name",
    PROMPTS_GET: "name",
    RESOURCES_READ: "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Methods whose `Mcp-Name` header repeats a parameter, with the parameter (MCP 2026-07-28)."""

LEGACY_ONLY: Final = frozenset(
    {INITIALIZE, PING, SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE, ROOTS_LIST,
     SAMPLE, ELICIT}
)  # fmt: skip
"""Requests that MCP 2026-07-28 removed. A stateless request for one is answered 404 and -32601."""

INPUT_METHODS: Final = frozenset({TOOLS_CALL, PROMPTS_GET, RESOURCES_READ})
"""Requests whose result may be `resultType: "input_required"` (MCP 2026-07-28)."""

MODERN_ONLY: Final = frozenset({DISCOVER, LISTEN})
"""Requests that legacy revisions do not have."""

# `_meta` keys --------------------------------------------------------------------------------------------
META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
META_ISSUES: Final = "lm-tools-bridge/issues"
"""Issues of a workspace server's lists (`issues.py`)."""
META_ERROR: Final = "lm-tools-bridge/error"
"""Holds the error object of an error result if the tool has an output schema."""
CODEX_SANDBOX: Final = "codex/sandbox-state-meta"

# Workspace servers -----------------------------------------------------------------------------------------
WORKSPACE_SERVER: Final = "lm-tools-bridge-workspace"
"""Name of a workspace server in `serverInfo`, unless it passes requests through to one MCP server."""

# The manager's own tools ---------------------------------------------------------------------------------
HANDSHAKE: Final = "lmToolsBridge.requestWorkspaceMCPServer"
HANDSHAKE_BARE: Final = "requestWorkspaceMCPServer"
CALL_TOOL: Final = "lmToolsBridge.callTool"
CALL_TOOL_BARE: Final = "callTool"
BIND_WORKSPACE: Final = "lmToolsBridge.bindWorkspace"
CALL_BRIDGED_TOOL: Final = "lmToolsBridge.callBridgedTool"
"""The names of both in the extension LM Tools Bridge from version 1.0.119 on: accepted, not listed."""
PLAIN: Final = {name: name.replace(".", "_") for name in (HANDSHAKE, CALL_TOOL)}
"""Their names for clients that pass names on to model APIs, which allow letters, digits, `_` and `-` only."""
HANDSHAKE_NAMES: Final = frozenset({HANDSHAKE, HANDSHAKE_BARE, BIND_WORKSPACE, PLAIN[HANDSHAKE]})
CALL_TOOL_NAMES: Final = frozenset({CALL_TOOL, CALL_TOOL_BARE, CALL_BRIDGED_TOOL, PLAIN[CALL_TOOL]})
MANAGER_TOOL_NAMES: Final = HANDSHAKE_NAMES | CALL_TOOL_NAMES

COMMAND_LINE: Final = "lmtb"
"""The name in `clientInfo` of verbs that make one request and leave."""

# Resources -----------------------------------------------------------------------------------------------
URI_HANDSHAKE: Final = "lm-tools-bridge://handshake"
URI_CALL_TOOL: Final = "lm-tools-bridge://callTool"
OWN_SCHEME: Final = "lm-tools://"
"""URI scheme of a workspace server's own resources; reserved: other MCP servers cannot use it."""
URI_NAMES: Final = "lm-tools://names"
URI_TOOL: Final = "lm-tools://tool/"
URI_SCHEMA: Final = "lm-tools://schema/"
TEMPLATE_TOOL: Final = "lm-tools://tool/{name}"
TEMPLATE_SCHEMA: Final = "lm-tools://schema/{name}"

# Environment variables ------------------------------------------------------------------------------------
INSTANCE_VARIABLE: Final = "LMTB_INSTANCE"
"""Holds the instance id of a workspace server; the mark of every process it starts begins with the id."""
CHILD_VARIABLE: Final = "LMTB_CHILD"
"""The mark of a process that a workspace server started: `<instance>.<random text>`."""

FORK_SERVER_INSTANCE: Final = "i-template"
"""Stands in place of an instance id in the fork server. It has the same length: forks overwrite it."""

APPROVALS: Final = "lmToolsBridge/approvals"
"""Notification on the lifeline: all calls of the workspace that wait for a person."""

TASKS_ENDED: Final = "lmToolsBridge/tasksEnded"
"""Notification on the lifeline: calls that went on as tasks and have ended (`internal/call_reports.py`)."""

# Addresses of a workspace server -------------------------------------------------------------------------
MCP_PATH: Final = "/mcp"
HEALTH_PATH: Final = "/mcp/health"
LIFELINE_PATH: Final = "/mcp/lifeline"
INSPECT_PATH: Final = "/mcp/inspect"
"""Lists all tools, hidden ones too; for the manager only."""
CALLS_PATH: Final = "/mcp/calls"
"""The calls that run at a workspace server, and the last ones, for its manager."""
STOP_CALL_PATH: Final = "/mcp/calls/stop"
ANSWER_APPROVAL_PATH: Final = "/mcp/approvals/answer"
"""Answers a question that waits; `?answer=` is its id, a dot, and `yes`, `no`, or `end` for neither."""
REFRESH_PATH: Final = "/mcp/refresh"
RESTART_PATH: Final = "/mcp/restart"
"""Makes sources reload, and reconnects those that are down; `?source=` names one."""
