"""How the program ends: one number for each outcome that a script or systemd may want to tell apart."""

from __future__ import annotations

from typing import Final

OK: Final = 0
"""Done. Also: another manager of this user serves already, so that there is nothing to do."""
FAILED: Final = 1
"""What was asked for did not succeed."""
USAGE: Final = 2
"""The command line could not be understood."""
HOPELESS: Final = 3
"""It would fail the same way again: a setting that does not fit, a port that belongs to somebody else."""
PORT_BUSY: Final = 4
"""The port did not become free in time."""
NOT_RUNNING: Final = 5
"""No manager is running."""
