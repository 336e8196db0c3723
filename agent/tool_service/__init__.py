"""Tools for other programs: a service class, and a WebSocket protocol for web pages that may use tools.

`ToolService` holds tools; `agent.tool_service.endpoint` serves one over WebSockets, and
`agent.tool_service.client` uses one.
"""

from agent.tool_service.errors import ToolServiceError
from agent.tool_service.service import Handler, ToolService

__all__ = ["Handler", "ToolService", "ToolServiceError"]
