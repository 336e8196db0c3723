"""Extends the time limit of a start that shows signs of life, and says what is wrong with a failed one.

The first start of `npx` and `uvx` downloads for minutes; a process that hangs shows nothing.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from lm_tools_bridge.machine.process_ending import pids, read_proc
from workspace_server.processes.child_process import ChildProcess
from workspace_server.results import clean_text
from workspace_server.sources.mcp.rpc import messages
from workspace_server.sources.mcp.rpc.messages import InvalidResponse, Response

MAX_QUOTED: Final = 120
"""Characters of a line that are quoted: enough to recognise it, little for a model to obey."""
_HEADER: Final = re.compile(rb"content-length\s*:\s*\d", re.IGNORECASE)
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_MEMBERS: Final = frozenset({"id", "result", "error", "method"})
_NOTHING: Final = (
    "it wrote nothing that answers; a program for another transport, or one that waits for Content-Length"
    " headers, does so"
)
_OTHER_ID: Final = "it answers with an id that was not asked"
_DECODER: Final = json.JSONDecoder()


def explain(lines: Sequence[bytes], unfinished: bytes = b"") -> str:
    """What is wrong, with the first line that came.

    Args:
        lines: the first lines of the output, at least their beginnings.
        unfinished: what came after the last line end.
    """
    strange = [line for line in lines if not _is_message(line)]
    if unfinished.strip():
        strange.append(unfinished)
    if not strange:
        answer = next((line for line in lines if isinstance(messages.read(line), Response)), None)
        return f"{_OTHER_ID}; the first such line: {quoted(answer)}" if answer else _NOTHING
    reasons = (_reason(line, is_last=line is strange[-1]) for line in strange)
    reason = next((text for text in reasons if text), None) or _of_all(strange, unfinished)
    return f"{reason}; the first such line: {quoted(strange[0])}"


def quoted(line: bytes) -> str:
    """A line in quotes on one line, escaped and cut."""
    coding = "utf-16" if line.startswith(_UTF16) else "utf-16-le" if line[1:2] == b"\0" else "utf-8"
    text = line.decode(coding, "replace").strip()
    cut = text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 1] + "…"
    return json.dumps(clean_text(cut), ensure_ascii=False)


def _is_message(line: bytes) -> bool:
    return not line.strip() or not isinstance(messages.read(line), InvalidResponse | None)


def _reason(line: bytes, *, is_last: bool) -> str | None:
    """What is wrong with one line; None if it may be any text."""
    plain = line.strip()
    if _HEADER.match(plain):
        return "it writes Content-Length headers; a stdio MCP server writes one JSON message a line"
    if line.startswith(_UTF16) or b"\0" in line:
        return "its output is UTF-16; it must be UTF-8"
    if plain.startswith((b"{'", b"[{'")):
        return "it writes single quotes, which JSON has not"
    value, end = _leading_value(plain)
    if isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        return "it answers with a batch, which is no longer part of the protocol"
    if isinstance(value, dict) and end < len(plain):
        return "more text follows its message on the same line"
    if isinstance(value, dict) and value.keys() & _MEMBERS and value.get("jsonrpc") != "2.0":
        return 'its messages lack "jsonrpc": "2.0"'
    if b'"jsonrpc"' in plain and not plain.startswith((b"{", b"[")):
        return "other text stands before its message on the same line"
    if plain == b"{" or (plain.startswith(b"{") and value is None and not is_last):
        return "it writes a message over several lines; it must be one line"
    return None


def _of_all(strange: Sequence[bytes], unfinished: bytes) -> str:
    value, _ = _leading_value(unfinished.strip())
    if isinstance(value, dict):
        return "it does not end its message with a line feed"
    if len(strange) == 1 and unfinished.strip():
        return "it wrote text without a line end on standard output, before any message"
    return "it writes lines that are no messages on standard output; logs belong on standard error"


def _leading_value(text: bytes) -> tuple[Any, int]:
    """The JSON value at the beginning of a text, and where it ends in bytes; None if there is none."""
    if text[:1] not in (b"{", b"["):
        return None, 0
    decoded = text.decode("utf-8", "replace")
    try:
        value, end = _DECODER.raw_decode(decoded)
    except (ValueError, RecursionError):
        return None, 0
    return value, len(decoded[:end].encode())


LOOK_S: Final = 3.0
"""Seconds between two looks at the processes; each reads a small file of every process of the machine."""


class StartWatch:
    """The start of one process.

    Args:
        child: the process.
        output: how much came on its standard output so far.
        silent_s: how long it may go on without a sign of life.
        longest_s: how long it may take in all.
        look_s: seconds between two looks.
    """

    def __init__(
        self,
        child: ChildProcess,
        output: Callable[[], int],
        *,
        silent_s: float,
        longest_s: float,
        look_s: float = LOOK_S,
    ) -> None:
        self._child = child
        self._output = output
        self._silent_s = silent_s
        self._longest_s = longest_s
        self._look_s = min(look_s, silent_s / 3)
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._alive_at = self._began

    @property
    def seconds(self) -> float:
        """How long the start takes so far."""
        return self._loop.time() - self._began

    @property
    def silent_for_s(self) -> float:
        """Seconds since the last sign of life."""
        return self._loop.time() - self._alive_at

    async def extend(self, limit: asyncio.Timeout) -> None:
        """Move the limit whenever there is a sign of life, until cancelled."""
        before = await self._signs()
        while True:
            await asyncio.sleep(self._look_s)
            signs = await self._signs()
            if signs != before:
                before, self._alive_at = signs, self._loop.time()
                limit.reschedule(min(self._alive_at + self._silent_s, self._began + self._longest_s))

    async def _signs(self) -> object:
        family = await asyncio.to_thread(of_session, self._child.pid)
        return family, self._child.stderr.received, self._output()


# Blocks; call it in a thread.

Signs = tuple[tuple[int, int, int], ...]
"""Of each process its pid, its processor time, and the bytes that it read and wrote."""


def of_session(leader: int) -> Signs:
    """The signs of all processes in the session of `leader`. Equal ones a while later show no life."""
    return tuple(sorted(_in_proc(leader) if sys.platform == "linux" else _by_psutil(leader)))


def _in_proc(leader: int) -> Iterator[tuple[int, int, int]]:
    for pid in pids():
        try:
            fields = read_proc(pid, "stat").rpartition(b")")[2].split()
            if int(fields[3]) == leader:
                yield pid, int(fields[11]) + int(fields[12]), _bytes_moved(pid)
        except (OSError, ValueError, IndexError):
            continue  # it has just ended


def _bytes_moved(pid: int) -> int:
    """Bytes read and written, those of pipes and sockets too; 0 where the system does not tell."""
    try:
        lines = read_proc(pid, "io").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith((b"rchar", b"wchar")))


def _by_psutil(leader: int) -> Iterator[tuple[int, int, int]]:
    import psutil

    try:
        root = psutil.Process(leader)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return
    for process in family:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        yield process.pid, int((times.user + times.system) * 100), 0
