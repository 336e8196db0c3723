"""Decides from repeated looks at a workspace's folder whether it is gone, so that its server has to stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class RootSign(Enum):
    """What one look at the folder of a running server found; the value says what happened, for users."""

    HERE = ""
    UNKNOWN = "the disk does not answer"
    DELETED = "its folder was removed"
    """The system says that the server's working folder no longer exists, even if there is a new one."""
    MOVED = "its folder was moved"
    MISSING = "its folder is missing"
    """The path leads nowhere, but the folder may still exist, e.g. because a disk was unmounted."""
    NO_WORKTREE = "its folder is no git worktree any more"


LOOKS: Final[Mapping[RootSign, int]] = {
    RootSign.DELETED: 1,
    RootSign.MOVED: 2,  # a folder that is replaced by renaming is back at once
    RootSign.NO_WORKTREE: 2,  # git writes its file `.git` anew
    RootSign.MISSING: 10,  # a network disk may be away for some seconds
}
"""After how many equal looks in a row the server stops. With any other sign it never does."""


@dataclass(slots=True)
class RootWatch:
    """The last sign, and how often in a row it was seen."""

    sign: RootSign = RootSign.HERE
    count: int = 0

    def saw(self, sign: RootSign) -> bool:
        """Record a look; returns whether the server has to stop now."""
        self.count = self.count + 1 if sign is self.sign else 1
        self.sign = sign
        return sign in LOOKS and self.count >= LOOKS[sign]
