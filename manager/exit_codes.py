"""The exit codes of the command line, as documented for scripts and service managers."""

from __future__ import annotations

from typing import Final

OK: Final = 0
"""Done; also: another manager of this user serves already."""
FAILED: Final = 1
"""The verb did not succeed."""
USAGE: Final = 2
"""Wrong options or arguments (click)."""
HOPELESS: Final = 3
"""It would fail the same way again: bad configuration, unsafe folder, port held by a stranger."""
PORT_BUSY: Final = 4
"""The port did not become free in time; a later try may succeed."""
NO_MANAGER: Final = 5
"""No manager is running."""
