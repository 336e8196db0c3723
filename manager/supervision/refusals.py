"""Makes the refusals for a folder that cannot be used, and for a server that cannot be reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import RETRY_STEP, Reason, Refusal
from manager.configuration.budgets import MAX_HANGING_LOOKUPS
from manager.disk.disk_lookups import DEADLINE_S
from manager.disk.folder import CwdProblem, CwdProblemKind

# A look-up on disk counts as hanging after about as long: an earlier try would meet the same one.
BUSY_RETRY_MS: Final = 2000
# A registered server sends a heartbeat each second: one that comes back has come by then.
LEFT_RETRY_MS: Final = 1000

_WORDS: Final = {
    CwdProblemKind.RELATIVE: "relative",
    CwdProblemKind.MISSING: "missing",
    CwdProblemKind.NOT_A_DIRECTORY: "not a directory",
    CwdProblemKind.UNREADABLE: "unreadable",
    CwdProblemKind.MALFORMED: "malformed",
    CwdProblemKind.TOO_LONG: "too long",
}


def is_utf8(path: str) -> bool:
    """Whether the path is valid UTF-8 and so can stand in JSON."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def refused_cwd(problem: CwdProblem, text: str) -> Refusal:
    """The refusal of a `cwd`; `text` is what the client wrote."""
    cwd = (text if len(text) <= 200 else text[:200] + "…").encode("utf-8", "replace").decode()
    details = {"problem": problem.kind.value, "cwd": cwd}
    if problem.kind is CwdProblemKind.BUSY:
        message = (
            "too many folders on this machine do not answer "
            f"({MAX_HANGING_LOOKUPS} look-ups, fixed limit), so {cwd} could not be looked up"
        )
        return Refusal(
            Reason.OVERLOADED, message, delivered="no", retry_after_ms=BUSY_RETRY_MS, details=details
        )
    if problem.kind is CwdProblemKind.SILENT:
        return Refusal(
            Reason.INVALID_CWD,
            f"cwd gave no answer within {DEADLINE_S:g} s: {cwd}",
            f"{RETRY_STEP}; if it stays so, check that the disk of this folder answers",
            delivered="no",
            retry_after_ms=BUSY_RETRY_MS,
            details=details,
        )
    next_step = f"pass the folder of that file: {problem.folder}" if problem.folder else None
    return Refusal(Reason.INVALID_CWD, f"cwd is {_WORDS[problem.kind]}: {cwd}", next_step, details=details)


def workspace_gone(workspace: str, root: str, moved_to: str | None) -> Refusal:
    """The refusal for a known workspace whose folder is missing; `moved_to` is where it seems to be."""
    details = {"workspace": workspace}
    if moved_to is None or not is_utf8(moved_to):
        return Refusal(Reason.WORKSPACE_GONE, f"workspace gone: {root}", delivered="no", details=details)
    return Refusal(
        Reason.WORKSPACE_GONE,
        f"workspace gone: {root}; its folder seems to be {moved_to} now",
        f"call {names.HANDSHAKE} with cwd = {moved_to}; after a move the project has to be trusted again",
        delivered="no",
        details={**details, "movedTo": moved_to},
    )


def server_left(workspace: str, root: str, *, is_unhealthy: bool) -> Refusal:
    """The refusal 47102 for clients of a server that was registered by another program, and serves no more.

    Args:
        root: the folder of the workspace.
        is_unhealthy: whether it is still registered, but does not answer as it should.
    """
    cause, what = ("unhealthy", "does not answer") if is_unhealthy else ("left", "has left")
    place = f" with cwd = {root}" if is_utf8(root) else ""
    return Refusal(
        Reason.WORKSPACE_SERVER_OFFLINE,
        f"resolved MCP server is offline: the program that served this workspace {what}",
        "wait until that program (an editor window, for example) serves again; or call "
        f"{names.HANDSHAKE}{place}, which starts a server with other tools; if that fails, run lmtb doctor",
        delivered="no",
        retry_after_ms=LEFT_RETRY_MS,
        details={"workspace": workspace, "cause": cause},
    )


def server_offline(
    workspace: str,
    cause: str,
    *,
    last_error: str | None = None,
    last_lines: Sequence[str] = (),
    retry_after_ms: int | None = None,
) -> Refusal:
    """The refusal 47102 for a server that cannot be used.

    Args:
        last_error: why it failed last.
        last_lines: the end of its output.
    """
    details: dict[str, object] = {"workspace": workspace, "cause": cause}
    if last_error is not None:
        details["lastError"] = last_error
    if last_lines:
        details["stderrTail"] = list(last_lines)
    return Refusal(
        Reason.WORKSPACE_SERVER_OFFLINE,
        f"resolved MCP server is offline: {cause}",
        delivered="no",
        retry_after_ms=retry_after_ms,
        details=details,
    )
