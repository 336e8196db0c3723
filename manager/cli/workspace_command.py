"""Runs the workspace server's own command line in place of this process, here or at the host of a project.

That command knows the workspace's files and can ask at this terminal. It works whether a manager runs or not;
running servers see changes with the next request. A project on another host has its settings, its trust and
its logins there: its tools are changed through this manager, which asks the one there, and the feature that
reaches hosts runs the other verbs.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from lm_tools_bridge.terminal.command_line import Failure, is_json, print_json, say
from lm_tools_bridge.text.printable import printable
from manager.cli.output.manager_access import ask_about, current_folder, unmatched, user_paths
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import Paths
from manager.features import FEATURES, ReachedHost
from manager.routing.remote_address import may_be_remote
from manager.server_command import server_command
from manager.status_reading import EFFECTS, LISTED

_NEED_PATH: Final = frozenset({"trust", "pending", "env", "languages"})
"""Verbs that look up programs: they need the PATH of the manager's servers."""
_PATH_S: Final = 1.0
"""Longest wait for the manager's PATH, which these verbs can do without."""


def run(*words: str) -> NoReturn:
    """Replace this process with the workspace server's command, given the user's folders and `words`.

    Write `--` before words that come from a person: none of those behind it is an option.
    """
    command = command_line(*words)
    try:
        os.execv(sys.executable, command)
    except OSError as error:
        raise _unusable(error) from error


def run_and_wait(*words: str) -> int:
    """Run the workspace server's command at this terminal, as `run` does; returns its exit status."""
    command = command_line(*words)
    # Ctrl-C reaches both, and the command says so; its own handling is the default again
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, check=False).returncode
    except OSError as error:
        raise _unusable(error) from error
    finally:
        signal.signal(signal.SIGINT, before)


def answer_of(*words: str, limit_s: float) -> dict[str, Any] | None:
    """The JSON object that the workspace server's command prints; None if it fails or takes too long."""
    try:
        command = command_line(*_with_json(words))
        ended = subprocess.run(command, capture_output=True, timeout=limit_s, check=True)
        answer = json.loads(ended.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def _unusable(error: OSError) -> Failure:
    return Failure(f"{sys.executable} cannot be run: {error}", "install the program again")


def command_line(*words: str) -> list[str]:
    """The program and arguments that run the workspace server's command."""
    paths = user_paths()
    search = _managers_path(paths) if words[0] in _NEED_PATH else None
    sys.stdout.flush()
    sys.stderr.flush()
    return [*server_command(paths, search), *(_with_json(words) if is_json() else words)]


def _with_json(words: Sequence[str]) -> list[str]:
    """The words with the option `--json`, which must come before a `--`."""
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], "--json", *words[end:]]


def _managers_path(paths: Paths) -> str | None:
    """The PATH that the running manager's servers inherit; None where no manager runs."""
    try:
        search = Control(paths.control_socket, _PATH_S).get("/status").get("path")
    except (NoManager, ManagerFault, ControlRefusal):
        return None
    return search if isinstance(search, str) and "\0" not in search else None


def root_of(path: Path | None) -> str:
    """The root of a folder's workspace, from the manager or, where none runs, by the same rules.

    A folder that no longer exists is its own root, so that its trust can be revoked.
    """
    folder = current_folder(path)
    if not Path(folder).is_dir():
        return folder
    try:
        answer = Control(user_paths().control_socket).post("/resolve", {"cwd": folder})
        return str(answer["match"]["workspaceFolders"][0])
    except (NoManager, ManagerFault):
        return _nearest_mark(folder)
    except ControlRefusal as refused:
        if refused.status == 404:
            raise unmatched(folder) from refused
        raise Failure(f"{folder} cannot be used: {refused}", "look closer with: lmtb doctor") from refused


def _nearest_mark(folder: str) -> str:
    # the rule takes 20 ms to import, and is rarely needed
    from manager.disk.filesystem import examine, identify
    from manager.disk.folder import CwdProblem
    from manager.routing.matching import match

    facts = examine([folder])
    if isinstance(facts, CwdProblem):
        raise Failure(f"{folder} cannot be used: {facts.kind.value}", "name an existing folder")
    home = identify(str(Path.home()))
    project = match(facts.ancestors, (), home=home, auto_start=True)
    if project is None:
        raise unmatched(folder)
    return project.root


TARGET = "/tools/change"
_OWN = frozenset({"ok", "reason"})
_BECAME = {"not_changed": "was not changed", "change_unknown": "may have been changed"}
"""Reason of the manager -> what became of the tool or source."""


def is_remote(place: Path | str | None) -> bool:
    """Whether a folder at the command line is on another host."""
    return place is not None and may_be_remote(str(place))


def run_there(place: Path | str, words: Sequence[str], operands: Sequence[str] = ()) -> NoReturn:
    """Let the program on the host of a project run a verb at this terminal, and exit as it does.

    Args:
        words: the verb and its options; the project's folder there follows them.
        operands: what follows the folder.
    """
    host, folder = find_host(place)
    sys.exit(host.run([*words, "--", folder, *operands]))


def find_host(place: Path | str) -> tuple[ReachedHost, str]:
    """The host of a project, and the project's folder there.

    Raises:
        Failure: the user has not added that host, or this installation reaches none.
    """
    feature = next((feature for feature in FEATURES if feature.reaches_hosts), None)
    if feature is None:
        raise Failure(f"{place} is on another host, and this installation reaches none", "use a folder here")
    reached: tuple[ReachedHost, str] = feature.load().find_host(str(place))
    return reached


def change_tool(place: Path | str, tool: str, change: str) -> dict[str, Any]:
    """Enable, disable, allow, ask or deny a tool of a project on another host; what was changed.

    Raises:
        Failure: nothing was changed, or it is unknown.
    """
    return _changed(place, tool, tool=tool, change=change)


def change_visibility(place: Path, name: str, visibility: str, *, of_source: bool) -> dict[str, Any]:
    """Choose in which lists a tool, or a source's tools, of a project on another host appear.

    Raises:
        Failure: nothing was changed, or it is unknown.
    """
    return _changed(place, name, name=name, visibility=visibility, ofSource=of_source)


def _changed(place: Path | str, what: str, **members: str | bool) -> dict[str, Any]:
    try:
        return ask_about(TARGET, place, **members)
    except Failure as failure:
        became = _BECAME.get(failure.reason or "")
        if became is None:
            raise
        step = f"see what holds now with: lmtb tools --cwd {shlex.quote(str(place))}"
        raise Failure(f"{printable(what)} {became}: {failure}", step, reason=failure.reason) from failure


def print_change(name: str, change: str, done: Mapping[str, Any]) -> None:
    """Say what was changed.

    Args:
        change: one of `EFFECTS` or `LISTED`.
    """
    if is_json():
        print_json({key: value for key, value in done.items() if key not in _OWN})
        return
    host, file = printable(done.get("host")), printable(done.get("file"))
    who = f"What {printable(name)} offers" if "source" in done else printable(name)
    say(f"{who} {EFFECTS.get(change) or LISTED[change]}. Written to {file} on {host}.")
    if done.get("waitsFor"):
        say(f"That file comes with the project, so it waits for: {printable(done['waitsFor'])}")
