"""Tools for other programs: a service class, and a WebSocket protocol for web pages that may use tools.

`ToolService` holds tools, and `execute_calls` runs those that a model calls.
`lm_tools_bridge.agent.tool_service.endpoint` serves a service over WebSockets, and
`lm_tools_bridge.agent.tool_service.client` uses one.
"""

from lm_tools_bridge.agent.tool_service.service import Handler, ToolService, ToolServiceError, execute_calls

__all__ = ["Handler", "ToolService", "ToolServiceError", "execute_calls"]
