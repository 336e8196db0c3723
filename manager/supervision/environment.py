"""Selects which variables of the manager a workspace server inherits, and which its configurations can name.

Pure. What the processes of a project's programs get is decided by the workspace server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_INHERITED: Final = (
    "HOME", "LOGNAME", "USER", "PATH", "SHELL", "TERM", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "SYSTEMROOT",
    "USERPROFILE", "TEMP", "DBUS_SESSION_BUS_ADDRESS", "CREDENTIALS_DIRECTORY",
)  # fmt: skip
SECRETS: Final = "LMTB_SECRET_"
MAX_VARIABLE: Final = 32 * 1024
"""Characters of one variable that configurations can name."""
MAX_VARIABLES: Final = 256 * 1024
"""Characters of all of them; the launch instructions are limited to 1 MiB."""


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a workspace server inherits: an allow-list, in which nothing is secret."""
    return {
        name: value
        for name, value in environ.items()
        if (name in _INHERITED or name.startswith("LC_")) and not value.startswith("()")
    }


def configuration_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the server and its configuration can name beside those that the server inherits.

    The launch instructions carry them: secrets (`LMTB_SECRET_…`), and what only a configuration may use, are
    in no process's environment. Variables that are not UTF-8 or too long are left out, secrets last.
    """
    passed_on = inherited(environ)
    selected: dict[str, str] = {}
    left = MAX_VARIABLES
    for name, value in sorted(environ.items(), key=lambda variable: not variable[0].startswith(SECRETS)):
        size = len(name) + len(value)
        if name in passed_on or value.startswith("()") or size > min(left, MAX_VARIABLE):
            continue
        if _is_unicode(name) and _is_unicode(value):
            selected[name] = value
            left -= size
    return selected


def _is_unicode(text: str) -> bool:
    """Whether all bytes of a variable were valid UTF-8; the others are lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
