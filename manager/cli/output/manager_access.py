"""Sends requests to the manager's control socket, and turns errors into failures with a next step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine.private_files import UnsafePathError
from lm_tools_bridge.terminal.command_line import Failure
from lm_tools_bridge.terminal.waiting import waiting
from manager import exit_codes
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import Paths
from manager.routing.remote_address import may_be_remote

SERVER_ANSWER_S: Final = 75.0
"""Longest wait for a workspace server that has to be started first."""


def user_paths(*, starts: bool = False) -> Paths:
    """The user's paths, for a verb, or for one that `starts` as the manager.

    Fails with `HOPELESS` if an environment variable names an unusable one.
    """
    try:
        return Paths.of_user(starts=starts)
    except UnsafePathError as error:
        raise Failure(
            f"{error.path} {error.reason}", error.hint, exit_code=exit_codes.HOPELESS, reason="unsafe_path"
        ) from error


@contextmanager
def explained() -> Iterator[None]:
    """Turns errors of a request to the manager into a failure with a next step."""
    try:
        yield
    except NoManager as error:
        raise Failure(
            "no manager is running",
            "start it with: lmtb up",
            exit_code=exit_codes.NO_MANAGER,
            reason="no_manager",
        ) from error
    except ControlRefusal as error:
        raise Failure(str(error), "check with: lmtb doctor", reason=error.reason) from error
    except ManagerFault as error:
        raise Failure(str(error), "check with: lmtb doctor", reason="manager_fault") from error


def ask(target: str) -> dict[str, Any]:
    """The JSON object at a path of the manager's control socket."""
    with explained(), waiting("asking the manager"):
        return Control(user_paths().control_socket).get(target)


def current_folder(path: Path | str | None) -> str:
    """The absolute form of a folder given at the command line, by default the current one.

    An address on another host stays as it is.
    """
    if path is not None and may_be_remote(str(path)):
        return str(path)
    try:
        folder = str(Path(path or ".").absolute())
    except FileNotFoundError as error:
        raise Failure("the current folder no longer exists", "change to another one, or use --cwd") from error
    try:
        folder.encode()
    except UnicodeEncodeError as error:
        raise Failure(f"the path {folder} is not UTF-8", "rename the folder", reason="invalid_cwd") from error
    return folder


def ask_about(target: str, path: Path | str | None, **members: str | bool | None) -> dict[str, Any]:
    """The answer of the server of a folder's workspace; the manager starts the server if needed."""
    folder = current_folder(path)
    payload = {"cwd": folder, **{key: value for key, value in members.items() if value is not None}}
    try:
        with explained(), waiting("asking the project's server, which starts if needed"):
            return Control(user_paths().control_socket, SERVER_ANSWER_S).post(target, payload)
    except Failure as failure:
        if failure.reason == "workspace_not_matched":
            raise unmatched(folder) from failure
        if failure.reason == "invalid_cwd":
            raise _unusable(folder, failure) from failure
        raise


def _unusable(folder: str, failure: Failure) -> Failure:
    """The failure for a folder that cannot be asked about: it is none, or on a host that is not known."""
    host, colon, path = folder.partition(":")
    if colon and path.startswith("/") and "/" not in host:
        text, step = (
            f'no host "{host}" was added',
            f"add it: lmtb remote add {host} ADDRESS; see: lmtb remote list",
        )
        return Failure(text, step, reason=failure.reason)
    text = str(failure).replace("cwd is missing:", "there is no folder")
    return Failure(text, "name an existing folder", reason=failure.reason)


def unmatched(folder: str) -> Failure:
    """The failure for a folder in no workspace, with how to make it one."""
    return Failure(
        f"{folder} is in no workspace",
        "go to a project, or make this folder one, with: git init, or mkdir .lm-tools-bridge",
        reason="workspace_not_matched",
    )


def mcp_address() -> str:
    """The URL of the MCP endpoint, as the running manager reports it."""
    address = ask("/status").get("address")
    if not isinstance(address, str):
        raise Failure("the running manager does not report its address", "restart it: lmtb stop; lmtb up")
    return address
