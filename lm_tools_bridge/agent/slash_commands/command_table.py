"""Lists the slash commands, and recognises them in what was entered. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.text.near_names import did_you_mean


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command: its name, what may follow it, what it does, other words for it."""

    name: str
    argument: str
    meaning: str
    others: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """How it is entered."""
        return f"/{self.name} {self.argument}".rstrip()


COMMANDS: Final = (
    Command("help", "", "show this list", ("help", "/?")),
    Command("mode", "[NAME]", "next provider, or this one; manual: without a model"),
    Command("model", "[NAME]", "use another model; without NAME, pick one"),
    Command("hil", "", "ask before calls, or stop asking, in this session"),
    Command("clear", "", "forget the conversation"),
    Command("compact", "", "replace older turns by a summary"),
    Command("context", "", "show what the last request took of the context"),
    Command("list", "[NAME]", "list the tools, or show one"),
    Command("tools", "[NAME on|off]", "show the state and use of tools, or switch one"),
    Command("servers", "", "show where tools come from"),
    Command("toggle", "NAME", "switch a source of tools on or off"),
    Command("last", "", "show the last result of a tool, whole"),
    Command("config", "[KEY [VALUE]]", "show the settings, or change and save one"),
    Command("resume", "[NUMBER]", "go on with a saved session"),
    Command("quit", "", "leave", ("exit", "/exit")),
)
_BY_WORD: Final = {
    word: command
    for command in COMMANDS
    for word in (f"/{command.name}", *(other for other in command.others))
}


@dataclass(frozen=True, slots=True)
class Entered:
    """A command with what followed it."""

    command: Command
    argument: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that looks like a command and is none, with what to say about it."""

    text: str


def recognised(text: str) -> Entered | Unknown | None:
    """The command in what was entered; None if it is for the model.

    A path such as `/etc/hosts` at the start of a question is not taken for a command.
    """
    word, _, argument = text.strip().partition(" ")
    command = _BY_WORD.get(word.lower())
    if command is not None and (word.startswith("/") or not argument):
        return Entered(command, argument.strip())
    if not word.startswith("/") or "/" in word[1:] or "\n" in word:
        return None
    words = [candidate for candidate in _BY_WORD if candidate.startswith("/")]
    return Unknown(f"there is no command {word}{did_you_mean(word, words)}; /help lists them")


def help_lines() -> list[str]:
    """The text of `/help`."""
    width = max(len(command.usage) for command in COMMANDS) + 2
    lines = [f"{command.usage.ljust(width)}{command.meaning}" for command in COMMANDS]
    keys = ("Alt-Enter: another line. Ctrl-C: cancel the turn, twice: leave. Ctrl-D: leave.",)
    return [*lines, "", *keys]


def completions(text: str, tools: Sequence[str], sources: Sequence[str]) -> list[tuple[str, str]]:
    """What the last word of a command can become, with explanations."""
    word, blank, argument = text.partition(" ")
    if not blank:
        return [
            (f"/{command.name}", command.meaning)
            for command in COMMANDS
            if f"/{command.name}".startswith(word)
        ]
    names = {"/list": tools, "/tools": tools, "/toggle": sources}.get(word, ())
    return [(name, "") for name in names if name.startswith(argument)] if " " not in argument else []
