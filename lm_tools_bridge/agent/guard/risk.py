"""Judges a call before anybody is asked: does it only read, may it destroy, is it a shell command. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.agent.guard.everyday import objection
from lm_tools_bridge.agent.messages import Tool
from lm_tools_bridge.agent.shell.programs import FIND_DELETE, programs_in

SHELL_TOOL: Final = "os_assistant_run_shell_command"
"""The agent's own tool for commands; nobody but the person lets it run."""
DANGEROUS: Final = frozenset(
    {
        "rm", "dd", "mkfs", "fdisk", "reboot", "shutdown", "chmod", "chown",
        "rmdir", "shred", "wipefs", "sfdisk", "cfdisk", "gdisk", "parted", "mkswap", "poweroff", "halt",
        FIND_DELETE,
    }
)  # fmt: skip
_MAKE_FILE_SYSTEM: Final = "mkfs."
_COMMAND_ARGUMENTS: Final = frozenset(
    {"command", "cmd", "shell_command", "command_line", "commandline", "shell"}
)


@dataclass(frozen=True, slots=True)
class Risk:
    """What is known of a call.

    Attributes:
        only_reads: its tool says that it changes nothing, and nothing speaks against it.
        is_command: it runs a shell command, so that an allowance covers this very command only.
        reason: why the answer defaults to no; empty if it defaults to yes.
    """

    only_reads: bool = False
    is_command: bool = False
    reason: str = ""


def risk_of(tool: Tool, arguments: Mapping[str, Any], project: str = "") -> Risk:
    """The risk of one call, by its commands and MCP's annotations; `destructiveHint` counts if said.

    Args:
        project: the absolute folder in which commands run, if it is known.
    """
    commands = list(_commands(tool, arguments))
    reason = "the tool says that it destroys" if tool.annotations.get("destructiveHint") is True else ""
    for command in commands:
        reason = reason or _reason(command) or objection(command, project)
    says_so = tool.annotations.get("readOnlyHint") is True
    return Risk(says_so and not reason and not commands, bool(commands), reason)


def _commands(tool: Tool, arguments: Mapping[str, Any]) -> Iterator[str]:
    """The arguments that are shell commands, by the name of the argument."""
    for name, value in arguments.items():
        if name.lower() in _COMMAND_ARGUMENTS:
            if isinstance(value, str):
                yield value
            elif isinstance(value, list) and all(isinstance(word, str) for word in value):
                yield _joined(value)
    if tool.name == SHELL_TOOL and not isinstance(arguments.get("command"), str):
        yield ""


def _joined(words: list[str]) -> str:
    import shlex  # noqa: PLC0415  seldom needed

    return shlex.join(words)


def _reason(command: str) -> str:
    programs = programs_in(command)
    dangerous = sorted(
        name for name in programs.names if name in DANGEROUS or name.startswith(_MAKE_FILE_SYSTEM)
    )
    if dangerous:
        return f"the command holds {', '.join(dangerous)}"
    if not programs.is_whole:
        return "the command cannot be parsed"
    if not programs.is_decided:
        return "the command cannot be told before it runs"
    return f"{programs.runs_code} runs code that is not looked into" if programs.runs_code else ""
