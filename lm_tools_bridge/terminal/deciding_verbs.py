"""Refuses verbs that decide something to programs that we started: a model could decide through them.

A verb decides unless its program lists it as one for anyone, so a new verb is closed to such programs first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from lm_tools_bridge.machine.own_children import are_we_own_child
from lm_tools_bridge.terminal.command_line import Failure, VerbGroup

Given = Mapping[str, Any]
"""The options and arguments of a verb, by their names."""
ForAnyone = Mapping[str, Callable[[Given], bool]]
"""The words of each verb that need not decide -> whether it does not, with what was given."""

_Command = TypeVar("_Command", bound=click.Command)
_WATCHED: Final = "_lmtb_watched"


def never_decides(_: Given) -> bool:
    """For a verb that only reads, calls tools like any client, or runs for a client."""
    return True


def if_given(*options: str) -> Callable[[Given], bool]:
    """For a verb that decides nothing with one of these options."""
    return lambda given: any(given[option] for option in options)


def unless_given(option: str) -> Callable[[Given], bool]:
    """For a verb that decides only with this option."""
    return lambda given: not given[option]


class DecidingGroup(VerbGroup):
    """The verbs of a program.

    Args:
        for_anyone: those that need not decide.
    """

    def __init__(self, *args: Any, for_anyone: ForAnyone, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self._for_anyone = for_anyone

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb, and watch who runs it."""
        command = super().get_command(ctx, cmd_name)
        return None if command is None else _watched(command, cmd_name, self._for_anyone)


def _watched(command: _Command, words: str, for_anyone: ForAnyone) -> _Command:
    """The same command, of which each verb first asks who runs it."""
    if getattr(command, _WATCHED, False):
        return command
    setattr(command, _WATCHED, True)
    run = command.callback
    if run is not None:
        command.callback = _asking(run, words, for_anyone.get(words))
    if isinstance(command, click.Group):
        for name, verb in command.commands.items():
            _watched(verb, f"{words} {name}", for_anyone)
    return command


def _asking(
    run: Callable[..., Any], words: str, decides_nothing: Callable[[Given], bool] | None
) -> Callable[..., Any]:
    @functools.wraps(run)
    def ask_first(*args: Any, **given: Any) -> Any:
        context = click.get_current_context()
        is_verb = context.invoked_subcommand is None  # else it is a group, of which a verb runs
        if is_verb and not (decides_nothing is not None and decides_nothing(context.params)):
            refuse_children(f"may not run lmtb {words}, by which you decide")
        return run(*args, **given)

    return ask_first


def refuse_children(decision: str) -> None:
    """Raise Failure if such a program runs this command. `decision` completes "a program …"."""
    if are_we_own_child():
        text = f"a program that a workspace server or an agent started {decision}"
        raise Failure(text, "repeat the command in a terminal of yours", reason="forbidden")
