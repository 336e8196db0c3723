"""Selects the variables that a child process inherits: a fixed list, so that no secret leaks.

The caller adds variables from the configuration, and the PATH (see `login_shell.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PASSED_ON: Final = ("HOME", "LOGNAME", "USER", "PATH", "SHELL", "TERM", "LANG", "TZ", "TMPDIR")
_FUNCTION: Final = "()"  # old shells exported functions this way and executed what followed (Shellshock)


def inherited(environ: Mapping[str, str], path: str | None, workspace: str) -> dict[str, str]:
    """The variables of `environ` that a child inherits, plus `LMTB_WORKSPACE`.

    Args:
        environ: this process's environment.
        path: the child's PATH, or None for the one in `environ`.
        workspace: the workspace's folder, passed as `LMTB_WORKSPACE`.
    """
    candidates = {
        name: value for name, value in environ.items() if name in PASSED_ON or name.startswith("LC_")
    }
    if path is not None:
        candidates["PATH"] = path
    candidates["LMTB_WORKSPACE"] = workspace
    return {name: value for name, value in candidates.items() if not value.startswith(_FUNCTION)}
