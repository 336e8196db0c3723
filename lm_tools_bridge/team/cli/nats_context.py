"""Finds the servers and files that a URL or a context of the program `nats` names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lm_tools_bridge.terminal.command_line import Failure

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_SCHEMES: Final = frozenset({"nats", "tls", "ws", "wss"})
_SECRETS: Final = ("user", "password", "token", "user_jwt", "user_seed")
_MAX_BYTES: Final = 64 * 1024


def target_of(target: str, files: Mapping[str, Path]) -> dict[str, Any]:
    """What a membership keeps: `servers`, and the absolute paths of files.

    Args:
        target: URLs separated by commas, or the name of a context.
        files: paths given as options, by name; they take precedence.
    """
    settings: dict[str, Any] = {}
    if "://" not in target and _NAME.fullmatch(target):
        settings = _context(target)
        target = settings.pop("url", "nats://127.0.0.1:4222")
    settings |= {name: str(path.expanduser().absolute()) for name, path in files.items()}
    for name, path in settings.items():  # only files are left
        if not os.access(path, os.R_OK):
            raise Failure(f"the file {path} cannot be read", f"check --{name}", reason="no_file")
    return {"servers": tuple(_url(url) for url in target.split(",") if url), **settings}


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        step = "write it as nats://host:4222 or tls://host:4222"
        raise Failure("the address of the server cannot be used", step, reason="invalid_url")
    if parts.username is not None or parts.password is not None:
        step = "use credentials in a file: --creds or --nkey"
        raise Failure("the address must not contain a secret", step, reason="secret_in_url")
    return text


def _context(name: str) -> dict[str, Any]:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    path = Path(base) / "nats" / "context" / f"{name}.json"
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(_MAX_BYTES))
    except FileNotFoundError as error:
        step = "give a URL such as nats://host:4222, or see: nats context ls"
        raise Failure(f"there is no context {name}", step, reason="no_context") from error
    except (OSError, ValueError, RecursionError) as error:
        raise Failure(f"{path} cannot be read: {error}", "check the file", reason="no_context") from error
    if not isinstance(content, dict):
        raise Failure(f"{path} is no context", "check the file", reason="no_context")
    if any(content.get(key) for key in _SECRETS):
        step = "use a context with a file of credentials (creds or nkey)"
        raise Failure(f"the context {name} contains a secret itself", step, reason="secret_in_context")
    settings = {key: content.get(key) for key in ("url", "creds", "nkey", "ca", "cert", "key")}
    texts = {key: value for key, value in settings.items() if isinstance(value, str) and value}
    return {key: str(Path(value).expanduser()) if key != "url" else value for key, value in texts.items()}
