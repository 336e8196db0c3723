"""Selects the variables that a child process inherits: a fixed list, so that no secret leaks.

The caller adds variables from the configuration, and the PATH (see `login_shell.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

PASSED_ON: Final = ("HOME", "LOGNAME", "USER", "PATH", "SHELL", "TERM", "LANG", "TZ", "TMPDIR")
_NETWORK: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
NETWORK: Final = (
    *_NETWORK, *(name.lower() for name in _NETWORK),
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
"""What a stdio server gets in addition, because servers often have to reach the network."""
_FUNCTION: Final = "()"  # old shells exported functions this way and executed what followed (Shellshock)


def inherited(environ: Mapping[str, str], path: str | None, workspace: str) -> dict[str, str]:
    """The variables of `environ` that a child inherits, plus `LMTB_WORKSPACE`.

    Args:
        environ: this process's environment.
        path: the child's PATH, or None for the one in `environ`.
        workspace: the workspace's folder, passed as `LMTB_WORKSPACE`.
    """
    return _inherited(environ, path, workspace, PASSED_ON)


def inherited_by_server(environ: Mapping[str, str], path: str | None, workspace: str) -> dict[str, str]:
    """Like `inherited`, for a stdio server: with the variables for proxies and certificates."""
    return _inherited(environ, path, workspace, (*PASSED_ON, *NETWORK))


def _inherited(
    environ: Mapping[str, str], path: str | None, workspace: str, names: Collection[str]
) -> dict[str, str]:
    candidates = {name: value for name, value in environ.items() if name in names or name.startswith("LC_")}
    if path is not None:
        candidates["PATH"] = path
    candidates["LMTB_WORKSPACE"] = workspace
    return {name: value for name, value in candidates.items() if not value.startswith(_FUNCTION)}
