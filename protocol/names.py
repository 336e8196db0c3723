"""Names that both ends must spell alike: methods, `_meta` keys, tools, resource URIs.

Header names are in `headers.py`, error codes in `errors.py`.
"""

from __future__ import annotations

from typing import Final

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
"""Tools last: clients that list again at once then see everything."""

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""What `logging/setLevel` and `META_LOG_LEVEL` may say, the most verbose first."""

NAMED_PARAM: Final = {
    TOOLS_CALL: "name",
    PROMPTS_GET: "name",
    RESOURCES_READ: "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Methods whose `Mcp-Name` header repeats one parameter, and which one (2026-07-28)."""

LEGACY_ONLY: Final = frozenset(
    {INITIALIZE, PING, SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE, ROOTS_LIST,
     SAMPLE, ELICIT}
)  # fmt: skip
"""Requests that 2026-07-28 removed; a modern request naming one is answered 404 -32601."""

INPUT_METHODS: Final = frozenset({TOOLS_CALL, PROMPTS_GET, RESOURCES_READ})
"""Requests whose answer may be a question: `resultType: "input_required"` (2026-07-28)."""

MODERN_ONLY: Final = frozenset({DISCOVER, LISTEN})
"""Requests that no session knows."""

# `_meta` keys --------------------------------------------------------------------------------------------
META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
META_ISSUES: Final = "lm-tools-bridge/issues"
"""Where a workspace server puts what is wrong with its lists."""
META_ERROR: Final = "lm-tools-bridge/error"
"""Where an error result keeps its object when the tool has an output schema."""
CODEX_SANDBOX: Final = "codex/sandbox-state-meta"

# Servers of ours -------------------------------------------------------------------------------------------
WORKSPACE_SERVER: Final = "lm-tools-bridge-workspace"
"""What a workspace server is called by itself, where it does not stand for somebody else's."""

# The manager's own tools ---------------------------------------------------------------------------------
HANDSHAKE: Final = "lmToolsBridge.requestWorkspaceMCPServer"
HANDSHAKE_BARE: Final = "requestWorkspaceMCPServer"
CALL_TOOL: Final = "lmToolsBridge.callTool"
CALL_TOOL_BARE: Final = "callTool"
HANDSHAKE_NAMES: Final = frozenset({HANDSHAKE, HANDSHAKE_BARE})
CALL_TOOL_NAMES: Final = frozenset({CALL_TOOL, CALL_TOOL_BARE})
MANAGER_TOOL_NAMES: Final = HANDSHAKE_NAMES | CALL_TOOL_NAMES

# Resources -----------------------------------------------------------------------------------------------
URI_HANDSHAKE: Final = "lm-tools-bridge://handshake"
URI_CALL_TOOL: Final = "lm-tools-bridge://callTool"
OWN_SCHEME: Final = "lm-tools://"
"""The beginning of the URIs of a workspace server, which no other server can take."""
URI_NAMES: Final = "lm-tools://names"
URI_TOOL: Final = "lm-tools://tool/"
URI_SCHEMA: Final = "lm-tools://schema/"
TEMPLATE_TOOL: Final = "lm-tools://tool/{name}"
TEMPLATE_SCHEMA: Final = "lm-tools://schema/{name}"

# Environment variables ------------------------------------------------------------------------------------
INSTANCE_VARIABLE: Final = "LMTB_INSTANCE"
"""Tells a workspace server its instance id, which begins the mark of every process it starts."""
CHILD_VARIABLE: Final = "LMTB_CHILD"
"""The mark of a process that a workspace server started: `<instance>.<random text>`."""

FORK_SERVER_INSTANCE: Final = "i-template"
"""Stands where a server has its instance id in the process that servers are forked from; as long as one."""

# Addresses of a workspace server -------------------------------------------------------------------------
MCP_PATH: Final = "/mcp"
HEALTH_PATH: Final = "/mcp/health"
LIFELINE_PATH: Final = "/mcp/lifeline"
INSPECT_PATH: Final = "/mcp/inspect"
"""Everything about the tools, shown or not; for the manager only."""
REFRESH_PATH: Final = "/mcp/refresh"
"""Asks sources to look again, and tries those that are down at once; `?source=` names one."""
