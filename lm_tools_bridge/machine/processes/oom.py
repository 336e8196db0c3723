"""Tells Linux which processes to end first when memory runs out."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

SERVER_SCORE: Final = 300
"""For workspace servers, which the manager starts again; what they start inherits it."""


def end_before_others(pid: int, score: int = SERVER_SCORE) -> None:
    """Make a child, and what it will start, go before this process, where that is possible."""
    if sys.platform == "linux":
        file = Path(f"/proc/{pid}/oom_score_adj")
        with suppress(OSError, ValueError):
            if int(file.read_text()) < score:
                file.write_text(str(score))
