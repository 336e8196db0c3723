"""Asks the person for the password of sudo, or refuses commands that become root."""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.agent.interaction import Box, Interaction, Question
from lm_tools_bridge.text.printable import printable

PROMPT: Final = "[sudo] password: "
REFUSED: Final = "root commands are off: {why}. Nothing ran. Next step: " + (
    'run it yourself, or set sudo = "askpass" in [agent]'
)
NO_PASSWORD: Final = "no password was given, so the command was not run"  # noqa: S105  a sentence
_LONGEST: Final = 2_000


class Sudo:
    """What happens to commands with sudo.

    Args:
        interaction: the person who has the password.
        allowed: whether commands with sudo may run at all.
    """

    def __init__(self, interaction: Interaction, *, allowed: bool) -> None:
        self.allowed = allowed
        self._interaction = interaction

    async def password(self, command: str) -> str | None:
        """Show the command and ask for the password, which is not shown; None if none was given."""
        self._interaction.box(Box.SUDO, [f"Command:  {printable(command, width=_LONGEST)}"])
        return await self._interaction.ask(Question(PROMPT, hidden=True)) or None
