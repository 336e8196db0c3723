"""Defines the agent's own tools: names, descriptions, schemas. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.agent.messages import Tool

PREFIX: Final = "os_assistant_"
RUN: Final = PREFIX + "run_shell_command"
LONGEST_S: Final = 600
"""Seconds that a command may take at most, as a script tool."""
_READS: Final = {"readOnlyHint": True, "openWorldHint": False}


def _schema(required: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


TOOLS: Final = (
    Tool(
        RUN,
        "Run a shell command in the project's folder and return its output. It has no terminal and no input.",
        _schema(
            ("command",),
            command={"type": "string", "minLength": 1, "description": "The command, for bash"},
            timeout_s={
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": LONGEST_S,
                "description": "Seconds after which it is ended",
            },
        ),
        {"readOnlyHint": False, "openWorldHint": True},
    ),
    Tool(PREFIX + "cpu_usage", "How busy the processors are, in percent.", _schema(), _READS),
    Tool(PREFIX + "memory_usage", "How much memory and swap is used.", _schema(), _READS),
    Tool(
        PREFIX + "disk_usage",
        "How full the disk of a folder is.",
        _schema(path={"type": "string", "description": "Absolute path; the project's folder by default"}),
        _READS,
    ),
    Tool(PREFIX + "uptime", "How long the machine has been running, and its load.", _schema(), _READS),
    Tool(
        PREFIX + "process_list",
        "The processes that use most of the processors or of the memory.",
        _schema(
            count={"type": "integer", "minimum": 1, "maximum": 100, "description": "How many; 15 by default"},
            sort_by={"type": "string", "enum": ["cpu", "memory"], "description": "cpu by default"},
        ),
        _READS,
    ),
    Tool(
        PREFIX + "environment",
        "The environment variables of this program; values only of those that are known to be no secrets.",
        _schema(name={"type": "string", "description": "Only this variable"}),
        _READS,
    ),
)
