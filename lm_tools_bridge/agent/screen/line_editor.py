"""The line editor of the prompt, by prompt_toolkit; keys pressed while the agent works wait for it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout

from lm_tools_bridge.agent.screen.screen import Completions
from lm_tools_bridge.text.printable import printable

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyPressEvent


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


LARGE_PASTE: Final = 2000
"""Characters of a paste that the line shows; a larger one has a mark in its place."""
_MARK: Final = re.compile(r"\[paste (\d+): [\d,]+ characters\]")
_TOOLBAR_STYLE: Final = "fg:ansibrightblack"


def _size() -> Size:
    size = shutil.get_terminal_size()
    return Size(rows=size.lines, columns=size.columns)


class LineEditor:
    """The prompt of a session, and questions within a turn."""

    def __init__(self, completions: Completions) -> None:
        self._pastes: dict[int, str] = {}
        # asking for the cursor's place would be warned about where the terminal does not answer
        self._output = Vt100_Output(sys.stdout, _size, term=os.environ.get("TERM"), enable_cpr=False)
        self._session: PromptSession[str] = PromptSession(
            history=InMemoryHistory(),
            completer=_Commands(completions),
            complete_while_typing=False,
            multiline=True,
            key_bindings=self._keys(),
            enable_open_in_editor=False,
            include_default_pygments_style=False,
            output=self._output,
        )

    async def line(self, state: str) -> str:
        """What the person enters.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
            EOFError: Ctrl-D was pressed, or the terminal is gone.
        """
        self._pastes.clear()
        prompt = FormattedText([(_TOOLBAR_STYLE, f"{printable(state)}\n"), ("bold", "> ")])
        with patch_stdout(raw=True):
            text = await self._session.prompt_async(prompt, prompt_continuation="  ", handle_sigint=False)
        return _MARK.sub(lambda match: self._pastes.get(int(match[1]), match[0]), text)

    def interrupt(self) -> bool:
        """Let the `line` that waits raise KeyboardInterrupt; returns whether one waits."""
        app = self._session.app
        if not app.is_running or app.future is None or app.future.done():
            return False
        app.exit(exception=KeyboardInterrupt())
        return True

    async def answer(self, prompt: str, *, hidden: bool, initial: str) -> str:
        """The answer to a question, in one line, which no history keeps. Raises as `line` does."""
        session: PromptSession[str] = PromptSession(
            history=InMemoryHistory(),
            is_password=hidden,
            include_default_pygments_style=False,
            output=self._output,
        )
        with patch_stdout(raw=True):
            return await session.prompt_async(printable(prompt), default=initial, handle_sigint=False)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(self._pasted(text))

        return keys

    def _pasted(self, text: str) -> str:
        if len(text) <= LARGE_PASTE:
            return text
        number = len(self._pastes) + 1
        self._pastes[number] = text
        return f"[paste {number}: {len(text):,} characters]"


class _Commands(Completer):
    """Completes slash commands and their arguments."""

    def __init__(self, completions: Completions) -> None:
        self._completions = completions

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        start = -len(text.rpartition(" ")[2])
        for word, meaning in self._completions(text):
            yield Completion(word, start_position=start, display_meta=printable(meaning))
