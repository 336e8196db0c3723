"""Refusals of a `cwd` that cannot be used, worded for the client."""

from __future__ import annotations

from manager.folder import CwdProblem, CwdProblemKind
from protocol.errors import Reason, Refusal


def is_utf8(path: str) -> bool:
    """Whether the path is valid UTF-8 and so can stand in JSON."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def invalid_cwd(problem: CwdProblem, text: str) -> Refusal:
    """The refusal of a `cwd`; `text` is what the client wrote."""
    words = {
        CwdProblemKind.RELATIVE: "relative",
        CwdProblemKind.MISSING: "missing",
        CwdProblemKind.NOT_A_DIRECTORY: "not a directory",
        CwdProblemKind.UNREADABLE: "unreadable",
        CwdProblemKind.MALFORMED: "malformed",
        CwdProblemKind.TOO_LONG: "too long",
    }
    next_step = f"pass the folder of that file: {problem.folder}" if problem.folder else None
    shown = (text if len(text) <= 200 else text[:200] + "…").encode("utf-8", "replace").decode()
    return Refusal(
        Reason.INVALID_CWD,
        f"cwd is {words[problem.kind]}: {shown}",
        next_step,
        details={"problem": problem.kind.value, "cwd": shown},
    )
