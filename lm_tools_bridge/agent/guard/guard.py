"""The guard: judges calls, lets them run by rules or allowances, or asks the person in a box."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.agent.agent_settings import AgentSettings
from lm_tools_bridge.agent.guard.audit import Audit
from lm_tools_bridge.agent.guard.everyday import objection
from lm_tools_bridge.agent.interaction import (
    DENIED,
    NO,
    YES,
    Box,
    Choice,
    Decision,
    Effect,
    Interaction,
    Question,
    Tone,
    Verdict,
)
from lm_tools_bridge.agent.messages import Call, Tool
from lm_tools_bridge.agent.shell_commands import FIND_DELETE, programs_in
from lm_tools_bridge.agent.tool_source import InvalidSchema, problems_with, read_arguments
from lm_tools_bridge.protocol import names
from lm_tools_bridge.text.printable import printable, printable_lines

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


MAX_INPUTS: Final = 2_000
"""Characters of the arguments that are shown; the count of the others is."""
_MAX_NAME: Final = 200  # characters; names of tools have 64 or 128
_MAX_QUESTION_LINES: Final = 200  # a server must not scroll away what was asked before
_MAX_LINE: Final = 2_000  # characters of a line that strangers write, as of `MAX_INPUTS`


def compact(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON on one line, for display and for editing; nothing in it is changed."""
    return json.dumps(arguments, ensure_ascii=False, default=str)


def call_lines(name: str, arguments: Mapping[str, Any], reason: str = "") -> list[str]:
    """The lines of a box about one call; `reason` says why the answer defaults to no."""
    inputs = printable(compact(arguments), width=MAX_INPUTS)
    lines = [f"Action:  {printable(name, width=_MAX_NAME)}", f"Inputs:  {inputs}"]
    return [*lines, f"Reason:  {printable(reason, width=_MAX_LINE)}"] if reason else lines


def is_cut(arguments: Mapping[str, Any]) -> bool:
    """Whether the box does not show all of the arguments."""
    return len(compact(arguments)) > MAX_INPUTS


def question_lines(question: str) -> list[str]:
    """The lines of a server's own question."""
    return printable_lines(question, most=_MAX_QUESTION_LINES, width=_MAX_LINE)


class Allowances:
    """What runs without another question until the session ends."""

    def __init__(self) -> None:
        self._tools: set[str] = set()
        self._exact: set[tuple[str, str]] = set()

    def allow(self, tool: str, arguments: Mapping[str, Any], *, exactly: bool) -> None:
        """Allow a tool, or `exactly` this call of it."""
        if exactly:
            self._exact.add((tool, _canonical(arguments)))
        else:
            self._tools.add(tool)

    def covers(self, tool: str, arguments: Mapping[str, Any], *, exactly: bool) -> bool:
        """Whether a call was allowed before; `exactly`: only if this very call was."""
        return (tool, _canonical(arguments)) in self._exact or (not exactly and tool in self._tools)


def _canonical(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True, default=str)


NOBODY: Final = f"{DENIED}: nobody can be asked here; allow the tool with --allow {{}}"
YES_PROMPT: Final = "Execute? ([y]/n): "
NO_PROMPT: Final = "Execute? (y/[n]): "
EDIT_PROMPT: Final = "Inputs as JSON: "
_HINT: Final = "a allows {} for this session, e edits the inputs"
_NESTING_TOOLS: Final = names.CALL_TOOL_NAMES | {"execute_tool"}
"""Tools that call the tool which their argument `name` names."""
_CUT: Final = "the inputs are too long to be shown whole"


class Mode(Enum):
    """Who decides."""

    ASK = "ask"
    """The person, for calls that may change something."""
    OFF = "off"
    """Nobody: calls run and are shown. Shell commands are asked for all the same."""
    MANUAL = "manual"
    """The person has chosen the call already."""
    ONE_SHOT = "one-shot"
    """Nobody is there: calls that change something run only if they were allowed beforehand."""


class AskingGuard:
    """A `Guard`, and the `Approver` of the manager's client.

    Args:
        interaction: the person.
        settings: `human_in_loop` chooses the mode at the start.
        audit: where decisions are recorded; None for nowhere.
        mode: the mode, where the settings do not choose it.
        allowed: names of tools that may run in one-shot mode.
        project: the folder in which commands run.

    Attributes:
        hints: whether the person is yet to be told what else can be typed.
    """

    def __init__(
        self,
        interaction: Interaction,
        settings: AgentSettings,
        audit: Audit | None,
        *,
        mode: Mode | None = None,
        allowed: Collection[str] = (),
        project: Path | None = None,
    ) -> None:
        self.mode = mode or (Mode.ASK if settings.human_in_loop else Mode.OFF)
        self._interaction = interaction
        self._audit = audit
        self._allowed = frozenset(allowed)
        self._allowances = Allowances()
        self._project = "" if project is None else str(project)
        self._approved: tuple[str, Mapping[str, Any]] | None = None
        self.hints = True

    def toggle(self) -> bool:
        """Switch between asking and not asking, for this session; whether it asks now."""
        self.mode = Mode.OFF if self.mode is Mode.ASK else Mode.ASK
        return self.mode is Mode.ASK

    async def decide(self, call: Call, tool: Tool) -> Decision:
        """See `Guard`."""
        arguments = call.arguments or {}
        try:
            decision = self._by_rule(tool, arguments) or await self._asked(tool, arguments)
        except asyncio.CancelledError:
            self._record(call.name, Decision(Verdict.ABORTED, arguments), 0.0, "not run")
            raise
        approved = decision.verdict is Verdict.ALLOWED
        self._approved = (tool.name, decision.arguments) if approved else None
        return decision

    def finished(self, call: Call, decision: Decision, *, seconds: float, failed: bool | None) -> None:
        """See `Guard`."""
        self._approved = None
        ending = "not run" if failed is None else "failed" if failed else "ok"
        self._record(call.name, decision, seconds, ending)

    async def approve(self, question: str, name: str | None, arguments: Mapping[str, Any]) -> bool:
        """Answer a server that asks for the approval of a call: yes without a question if it is the call that
        the person has just allowed, else as the person says, with no as the default.
        """
        asked_for = question.partition("\n")[0].removeprefix("Run ").removesuffix("?")
        if self._approved == (name, arguments) and asked_for in _names_meant(name, arguments):
            return True
        if self.mode is Mode.ONE_SHOT:
            approved = asked_for in self._allowed
        else:
            self._interaction.box(Box.GUARD, question_lines(question))
            approved = _is_yes(await self._interaction.ask(Question(NO_PROMPT, choices=(YES, NO))))
        verdict = Verdict.ALLOWED if approved else Verdict.DENIED
        self._record(asked_for, Decision(verdict, arguments), 0.0, "asked by its server")
        return approved

    def _by_rule(self, tool: Tool, arguments: Mapping[str, Any]) -> Decision | None:
        """The decision where nobody has to be asked."""
        risk = risk_of(tool, arguments, self._project)
        is_shell = tool.name == SHELL_TOOL
        if self.mode is Mode.MANUAL or tool.name in self._allowed:
            return Decision(Verdict.ALLOWED, arguments)
        if self._allowances.covers(tool.name, arguments, exactly=risk.is_command or is_shell):
            return Decision(Verdict.ALLOWED, arguments)
        if risk.only_reads:
            return Decision(Verdict.AUTO, arguments)
        if self.mode is Mode.ONE_SHOT:
            return Decision(Verdict.DENIED, arguments, NOBODY.format(tool.name))
        if self.mode is Mode.OFF and not is_shell:
            self._interaction.box(Box.AUTO, call_lines(tool.name, arguments))
            return Decision(Verdict.AUTO, arguments)
        return None

    async def _asked(self, tool: Tool, arguments: Mapping[str, Any]) -> Decision:
        """The person's decision; asked again after each edit."""
        while True:
            risk = risk_of(tool, arguments, self._project)
            reason = risk.reason or (_CUT if is_cut(arguments) else "")
            self._interaction.box(Box.GUARD, call_lines(tool.name, arguments, reason))
            self._hint(tool, risk)
            prompt = NO_PROMPT if reason else YES_PROMPT
            answer = await self._interaction.ask(Question(prompt, choices=_choices(risk)))
            word = None if answer is None else answer.strip().lower()
            if word == "e":
                arguments = await self._edited(tool, arguments)
                continue
            if word == "a":
                exactly = risk.is_command or tool.name == SHELL_TOOL
                self._allowances.allow(tool.name, arguments, exactly=exactly)
            if word in {"y", "yes", "a"} or (word == "" and not reason):
                return Decision(Verdict.ALLOWED, arguments)
            return Decision(Verdict.DENIED, arguments, DENIED)

    async def _edited(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Arguments that the person has edited; the former ones if nothing was typed."""
        text = compact(arguments)
        while True:
            typed = await self._interaction.ask(Question(EDIT_PROMPT, initial=text))
            if typed is None or not typed.strip():
                return arguments
            edited, problem = read_arguments(typed)
            problems = [problem] if problem else _misfits(tool, edited or {})
            if not problems:
                return edited or {}
            self._interaction.notice("; ".join(problems), Tone.WARNING)
            text = typed

    def _hint(self, tool: Tool, risk: Risk) -> None:
        """Say once a session what else can be answered."""
        if self.hints:
            self.hints = False
            self._interaction.notice(_HINT.format(_allowed_by(risk)))

    def _record(self, tool: str, decision: Decision, seconds: float, ending: str) -> None:
        if self._audit is not None:
            self._audit.write(tool, decision.verdict, decision.arguments, seconds, ending)


def _allowed_by(risk: Risk) -> str:
    """What an allowance for the session covers."""
    return "this command" if risk.is_command else "the tool"


def _choices(risk: Risk) -> tuple[Choice, ...]:
    always = Choice("a", f"Allow {_allowed_by(risk)} for this session", Effect.ALWAYS)
    return (YES, always, NO)


def _names_meant(name: str | None, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The tools that a call runs by its own name, or by that of the tool which it passes on to."""
    if name is None:
        return ()
    nested = arguments.get("name")
    return (name, nested) if name in _NESTING_TOOLS and isinstance(nested, str) else (name,)


def _misfits(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    try:
        return problems_with(tool.input_schema, arguments)
    except InvalidSchema:
        return []  # the server decides


def _is_yes(answer: str | None) -> bool:
    return answer is not None and answer.strip().lower() in {"y", "yes"}
