"""The environment a child begins with: named variables of ours, so that no secret goes with them.

What a configuration declares on top is the caller's; so is the PATH, see `login_shell.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PASSED_ON: Final = ("HOME", "LOGNAME", "USER", "PATH", "SHELL", "TERM", "LANG", "TZ", "TMPDIR")
_FUNCTION: Final = "()"  # how shells once exported functions, and ran what followed them


def inherited(environ: Mapping[str, str], path: str | None, workspace: str) -> dict[str, str]:
    """The variables of `environ` a child may see, and its workspace.

    Args:
        environ: our own environment.
        path: the PATH of the child, or None for the one in `environ`.
        workspace: the workspace's folder; the child finds it in `LMTB_WORKSPACE`.
    """
    candidates = {
        name: value for name, value in environ.items() if name in PASSED_ON or name.startswith("LC_")
    }
    if path is not None:
        candidates["PATH"] = path
    candidates["LMTB_WORKSPACE"] = workspace
    return {name: value for name, value in candidates.items() if not value.startswith(_FUNCTION)}
