"""Runs verbs of `lmtb`, which knows the workspace and keeps what is switched off for every client."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any, Final

_LONGEST_S: Final = 20.0
_MOST_BYTES: Final = 4 * 1024 * 1024


async def answer_of(folder: Path, *words: str) -> dict[str, Any]:
    """The JSON object that a verb prints, `{"ok": false, "error": {"message": …}}` if it gives none."""
    command = (sys.executable, "-I", "-m", "manager", *words, "--json")
    try:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, limit=_MOST_BYTES
        )
    except OSError as error:
        return _failed_answer(f"lmtb cannot be run: {error.strerror or error}")
    try:
        async with asyncio.timeout(_LONGEST_S):
            printed, _ = await process.communicate()
    except TimeoutError:
        return _failed_answer(f"lmtb {words[0]} gave no answer within {_LONGEST_S:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        answer = json.loads(printed)
    except ValueError:
        return _failed_answer(f"lmtb {words[0]} gave no answer")
    return answer if isinstance(answer, dict) else _failed_answer(f"lmtb {words[0]} gave no answer")


def problem_of(answer: dict[str, Any]) -> str | None:
    """Why a verb failed, with the next step; None if it did not."""
    if answer.get("ok"):
        return None
    error = answer.get("error")
    members = error if isinstance(error, dict) else {}
    message, step = str(members.get("message", "lmtb failed")), members.get("nextStep")
    return f"{message}; {step}" if step else message


def _failed_answer(message: str) -> dict[str, Any]:
    return {"ok": False, "error": {"message": message}}
