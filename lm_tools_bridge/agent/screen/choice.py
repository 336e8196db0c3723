"""Chooses how the agent is shown, by what its standard streams are and what the environment wishes."""

from __future__ import annotations

import sys
from collections.abc import Callable

from lm_tools_bridge.agent.screen.interrupts import Interrupts
from lm_tools_bridge.agent.screen.json_screen import JsonScreen
from lm_tools_bridge.agent.screen.line_input import LineInput
from lm_tools_bridge.agent.screen.plain_screen import PlainScreen
from lm_tools_bridge.agent.screen.screen import Completions, Screen
from lm_tools_bridge.terminal.screen import has_colour


def session_screen(interrupts: Interrupts, completions: Completions) -> tuple[Screen, Callable[[], bool]]:
    """The screen of a session, and a function that ends its prompt, as the key Ctrl-C does.

    The function returns whether a prompt waits.
    """
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if is_terminal and has_colour(sys.stdout):
        # a session in a pipe does not need prompt_toolkit
        from lm_tools_bridge.agent.screen.terminal.terminal_screen import TerminalScreen

        screen = TerminalScreen(interrupts, completions)
        return screen, screen.interrupt
    line_input = LineInput(sys.stdin.fileno())
    return PlainScreen(sys.stdout, sys.stdout, line_input, asks=is_terminal), line_input.interrupt


def one_shot_screen(*, as_json: bool) -> Screen:
    """The screen of one turn: the reply on standard output, the rest on standard error; nobody is asked."""
    if as_json:
        return JsonScreen(sys.stdout)
    return PlainScreen(sys.stdout, sys.stderr, None, asks=False)
