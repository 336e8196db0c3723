"""The agent's own tools as a source: their definitions and their calls."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.agent.agent_settings import AgentSettings
from lm_tools_bridge.agent.local_tools.command_process import CommandEnd, run_command
from lm_tools_bridge.agent.local_tools.measurements import MEASUREMENTS, NotMeasured
from lm_tools_bridge.agent.local_tools.sudo import (
    NO_PASSWORD,
    REFUSED,
    Root,
    Sudo,
    askpass_channel,
    becomes_root,
    undumpable,
)
from lm_tools_bridge.agent.messages import Tool
from lm_tools_bridge.agent.tool_source import Outcome, SourceState, problems_with, text_outcome
from lm_tools_bridge.text.redaction import mask

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


DEFAULT_S: Final = 60.0
"""Seconds that a command may take, unless its call says something else."""
_WHY: Final = {
    Root.YES: "the command uses sudo, or a program like it",
    Root.UNCLEAR: "which programs the command starts cannot be told, and sudo may be among them",
}


class LocalTools:
    """A `ToolSource`: `os_assistant_…`.

    Args:
        workspace: the folder that commands run in.
        settings: `local_tools` switches the source, `sudo` what happens to commands with it.
        sudo: asks for the password.
    """

    name = "os_assistant"
    limits_calls = True

    def __init__(self, workspace: Path, settings: AgentSettings, sudo: Sudo) -> None:
        self._workspace = workspace
        self._is_on = settings.local_tools
        self._default_s = min(DEFAULT_S, settings.tool_s)
        self._variable_names = settings.command_variables
        self._sudo = sudo

    async def list_tools(self) -> Sequence[Tool]:
        """See `ToolSource`."""
        return TOOLS if self._is_on else ()

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: Callable[[str], None]
    ) -> Outcome:
        """See `ToolSource`."""
        tool = next((tool for tool in TOOLS if tool.name == name), None)
        if tool is None or not self._is_on:
            return _not_run(f"Tool not found or disabled: {name}")
        if problems := problems_with(tool.input_schema, arguments):
            return _not_run(f"Error: {'; '.join(problems)}")
        if name == RUN:
            return await self._run(arguments)
        measure = MEASUREMENTS[name.removeprefix(PREFIX)]
        try:
            async with asyncio.timeout(self._default_s):  # a disk that hangs holds its thread, not the agent
                return text_outcome(await asyncio.to_thread(measure, arguments, self._workspace))
        except NotMeasured as problem:
            return text_outcome(f"Error: {problem}", is_error=True)
        except TimeoutError:
            return text_outcome(f"Error: nothing was measured within {self._default_s:g} s", is_error=True)

    def refusal(self, name: str, arguments: Mapping[str, Any]) -> Outcome | None:
        """See `RefusesCalls`: commands that become root, unless `sudo` in the settings allows them."""
        command = arguments.get("command")
        if self._sudo.allowed or name != RUN or not isinstance(command, str):
            return None
        root = becomes_root(command)
        return None if root is Root.NO else _not_run(REFUSED.format(why=_WHY[root]))

    def state(self) -> SourceState:
        """See `ToolSource`."""
        if self._is_on:
            return SourceState(self.name, "ready")
        return SourceState(self.name, "unavailable", "switched off by local_tools = false in [agent]")

    async def close(self) -> None:
        """See `ToolSource`. Commands end with their calls."""

    async def _run(self, arguments: Mapping[str, Any]) -> Outcome:
        command = str(arguments["command"])
        limit_s = min(float(arguments.get("timeout_s", self._default_s)), LONGEST_S)
        if (refused := self.refusal(RUN, arguments)) is not None:
            return refused
        try:
            if becomes_root(command) is Root.NO:
                return _outcome_of_end(
                    await run_command(command, self._workspace, limit_s, self._variables(), None)
                )
            return await self._run_as_root(command, limit_s)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            return _not_run(f"Error: the command cannot be started: {reason}")

    async def _run_as_root(self, command: str, limit_s: float) -> Outcome:
        with undumpable():
            password = await self._sudo.password(command)
            if password is None:
                return _not_run(NO_PASSWORD)
            async with askpass_channel(password) as channel:
                variables = {**self._variables(), **channel.variables}
                end = await run_command(command, self._workspace, limit_s, variables, channel.session)
        return _outcome_of_end(end, password)

    def _variables(self) -> dict[str, str]:
        """The variables that the user passes on to commands by name."""
        return {name: os.environ[name] for name in self._variable_names if name in os.environ}


def _outcome_of_end(end: CommandEnd, *secrets: str) -> Outcome:
    return text_outcome(mask(end.text, secrets), is_error=end.failed)


def _not_run(text: str) -> Outcome:
    return text_outcome(text, is_error=True, delivered=False)
