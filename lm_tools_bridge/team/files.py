"""Changes `team.json`, tells a running manager, and turns errors into failures with a next step.

What a person joins is a URL or a context of the program `nats`, which names servers and files.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.private_files import LockTimeout
from lm_tools_bridge.team import membership
from lm_tools_bridge.team.membership import Membership, UnreadableMembership
from lm_tools_bridge.terminal.command_line import Failure
from lm_tools_bridge.terminal.waiting import waiting
from manager.cli.output.manager_access import explained, user_paths
from manager.client import Control, NoManager

RELOAD_S = 60.0
"""Longest wait for a manager that leaves a team: calls of others may end first."""
SETTLE_S: Final = 8.0
"""Longest wait for the connection to a team that was just joined; it is tried on afterwards, too."""
_POLL_S: Final = 0.1
"""Between two looks at the state of a manager that connects: a person notices no delay."""


def config_dir() -> Path:
    """The user's configuration folder."""
    return user_paths().config_dir


@contextmanager
def explained_file() -> Iterator[None]:
    """Turns errors of `team.json` into failures."""
    try:
        yield
    except UnreadableMembership as error:
        raise Failure(str(error), "join one: lmtb team join URL", reason="not_joined") from error
    except LockTimeout as error:
        raise Failure(str(error), "try again", reason="locked") from error
    except OSError as error:
        raise Failure(worded(error), "check the folder and the disk", reason="unusable") from error


def edited(edit: Callable[[Membership], Membership]) -> dict[str, Any] | None:
    """Change what the user offers or uses; returns the state of a running manager."""
    with explained_file():
        membership.change(config_dir(), edit)
    return reloaded()


def joined() -> Membership:
    """The team that was joined."""
    with explained_file():
        held = membership.load(config_dir())
    if held is None:
        raise Failure("no team was joined", "join one: lmtb team join URL", reason="not_joined")
    return held


def reloaded() -> dict[str, Any] | None:
    """The state after a running manager follows the file; None if none runs."""
    try:
        with waiting("the manager follows"):
            return Control(user_paths().control_socket, RELOAD_S).post("/team/reload", {})
    except NoManager:
        return None


def settled(state: dict[str, Any] | None, within_s: float = SETTLE_S) -> dict[str, Any] | None:
    """The state once the team is reached, or it is known why not."""
    ends = time.monotonic() + within_s
    with waiting("connecting to the team"):
        while state is not None and not _is_settled(state) and time.monotonic() < ends:
            time.sleep(_POLL_S)
            try:
                state = Control(user_paths().control_socket, RELOAD_S).get("/team")
            except NoManager:
                return None
    return state


def _is_settled(state: dict[str, Any]) -> bool:
    return bool(not state.get("joined") or state.get("error") or (state.get("registry") or {}).get("listed"))


def posted(target: str, payload: dict[str, object]) -> dict[str, Any]:
    """The answer of the manager."""
    with explained(), waiting("asking the project's server, which starts if needed"):
        return Control(user_paths().control_socket, RELOAD_S).post(target, payload)


_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_SCHEMES: Final = frozenset({"nats", "tls", "ws", "wss"})
_SECRETS: Final = ("user", "password", "token", "user_jwt", "user_seed")
_MAX_BYTES: Final = 64 * 1024
"""A context has addresses and paths, less than a kilobyte."""


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
