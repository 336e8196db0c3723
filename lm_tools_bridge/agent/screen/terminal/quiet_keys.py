"""Keeps keys that are pressed while the agent works off the screen; the next prompt gets them."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any


class QuietKeys:
    """The settings of a terminal, which are as they were at the end. A prompt shows its keys itself."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before: list[Any] | None = None
        if sys.platform == "win32" or not os.isatty(descriptor):
            return
        import termios

        self._before = termios.tcgetattr(descriptor)
        self._quiet(self._before)

    def forget(self) -> None:
        """Throw away what was typed and not read."""
        if self._before is not None:
            import termios

            from prompt_toolkit.application import get_app_session
            from prompt_toolkit.input.typeahead import clear_typeahead

            termios.tcflush(self._descriptor, termios.TCIFLUSH)
            clear_typeahead(get_app_session().input)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._before is not None:
            self._set(self._before)

    def _quiet(self, before: list[Any]) -> None:
        import termios

        attributes = list(before)
        attributes[3] &= ~termios.ECHO
        self._set(attributes)

    def _set(self, attributes: list[Any]) -> None:
        import termios

        with suppress(termios.error, OSError):  # the terminal may be gone
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, attributes)
