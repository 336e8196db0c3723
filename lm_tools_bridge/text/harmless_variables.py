"""Tells which environment variables a model may read, and hides credentials inside their values. Pure.

An allow-list: no list of bad names would hold `DATABASE_URL`, `MYSQL_PWD` and what comes next.
"""

from __future__ import annotations

import re
from typing import Final

from lm_tools_bridge.text.redaction import HIDDEN, is_secret_name

_HIDDEN_PARTS: Final = ("PASS", "TOKEN", "KEY", "SECRET")
_NAMES: Final = frozenset(
    {
        "HOME", "USER", "LOGNAME", "USERNAME", "SHELL", "PATH", "PWD", "OLDPWD", "SHLVL",
        "HOSTNAME", "HOSTTYPE", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "TERM",
        "COLORTERM", "TERM_PROGRAM", "COLUMNS", "LINES", "EDITOR", "VISUAL", "PAGER", "MANPAGER",
        "BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "DESKTOP_SESSION", "DBUS_SESSION_BUS_ADDRESS",
        "SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_TTY", "WSL_DISTRO_NAME", "MAKEFLAGS", "CI", "DEBUG",
        "VERBOSE", "NO_COLOR", "FORCE_COLOR", "CC", "CXX", "CPP", "LD", "AR", "CGO_ENABLED", "GOOS",
        "GOARCH", "GOPROXY", "GOMODCACHE", "GOCACHE", "GOTOOLCHAIN", "DJANGO_SETTINGS_MODULE",
        "FLASK_APP", "VIRTUAL_ENV_PROMPT", "CONDA_PREFIX", "CONDA_SHLVL", "DOCKER_HOST",
        "DOCKER_CONTEXT", "KUBECONFIG", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION",
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "SYSTEMROOT", "SYSTEMDRIVE",
        "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PATHEXT", "COMSPEC", "OS",
    }
)  # fmt: skip
_BEGINNINGS: Final = ("LC_", "XDG_", "LMTB_", "PYTHON", "RUST")
_ENDINGS: Final = ("_HOME", "_DIR", "_PATH", "_ROOT", "_ENV", "_VERSION", "_COLOR", "_LEVEL", "PATH", "FLAGS")
_USER_INFO: Final = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s@]+@", re.IGNORECASE)
_QUERY_SECRET: Final = re.compile(
    r"([?&][^=&\s]*(?:token|key|secret|sig|pass|pwd|auth|credential)[^=&\s]*=)[^&\s]+", re.IGNORECASE
)


def is_hidden_name(name: str) -> bool:
    """Whether the name of a variable says that its value is a secret."""
    return is_secret_name(name) or any(part in name.upper() for part in _HIDDEN_PARTS)


def is_harmless(name: str) -> bool:
    """Whether the value of a variable with this name is known to be no secret."""
    upper = name.upper()
    if upper in _NAMES:
        return True
    return not is_hidden_name(name) and (upper.startswith(_BEGINNINGS) or upper.endswith(_ENDINGS))


def without_credentials(value: str) -> str:
    """A value in which the credentials inside addresses are hidden."""
    return _QUERY_SECRET.sub(rf"\1{HIDDEN}", _USER_INFO.sub(rf"\1{HIDDEN}@", value))
