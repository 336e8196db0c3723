"""The tool `lm_readFile`: reads a file of the workspace, or a range of its lines.

The file is streamed in a thread, so a large file costs time but no memory.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import mimetypes
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from workspace_server.results import clean_text, well_formed
from workspace_server.sources.builtin.search.query import SearchSettings
from workspace_server.sources.builtin.tools.neighbours import neighbours
from workspace_server.sources.builtin.tools.pages import NOTE_SCHEMA, PAGE_CHARACTERS, shown_path
from workspace_server.tool import InvalidArguments, Tool, ToolError, ToolResult
from workspace_server.workspace import PathNotFound, Workspace, absolute_text

DEFAULT_MAX_BYTES = PAGE_CHARACTERS
MAX_BYTES = 1024 * 1024
"""What a caller may ask for at once: about 300,000 tokens, more than most models hold."""

_CHUNK = 1024 * 1024
"""Bytes of one read of a file that is searched for line ends."""
# A NUL in these first bytes says that a file is binary; a byte order mark says its encoding.
_SNIFF = 8192
_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NAMED = ["utf-8", *(name for _, name in _ENCODINGS), "windows-1252", "iso-8859-1", "binary"]

TOOL = Tool(
    name="lm_readFile",
    definition={
        "name": "lm_readFile",
        "title": "Read file",
        "description": (
            "Read a file of the project, or lines of it, exactly as it is. For agents that cannot read files "
            "themselves. If `truncated`, go on at `nextStartLine`. Binary files come as embedded resources. "
            'Example: {"filePath": "src/app.ts", "startLine": 40, "endLine": 80}'
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "filePath": {
                    "type": "string",
                    "description": "Relative to your folder, else to the root; or absolute.",
                },
                "startLine": {
                    "type": "integer",
                    "minimum": 1,
                    "default": 1,
                },
                "endLine": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Inclusive. Default: the last line.",
                },
                "maxBytes": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_BYTES,
                    "default": DEFAULT_MAX_BYTES,
                },
            },
            "required": ["filePath"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "absolutePath": {"type": "string"},
                "workspacePath": {"type": ["string", "null"], "description": "`Folder/path`."},
                "startLine": {"type": "integer", "minimum": 0, "description": "0 if there are no lines."},
                "endLine": {"type": "integer", "minimum": 0, "description": "Last line in `content`."},
                "totalLines": {"type": "integer", "minimum": 0},
                "sizeBytes": {"type": "integer", "minimum": 0},
                "encoding": {"type": "string", "enum": _NAMED},
                "truncated": {"type": "boolean", "description": "Whether `maxBytes` cut the content."},
                "content": {"type": "string", "description": "The text; empty for a binary file."},
                "nextStartLine": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "`startLine` of the next part, if the content was cut.",
                },
                "lineIsCut": {
                    "const": True,
                    "description": "The last line is longer than `maxBytes`, so its end is missing.",
                },
                **NOTE_SCHEMA,
            },
            "required": [
                *("absolutePath", "workspacePath", "startLine", "endLine", "totalLines", "sizeBytes"),
                *("encoding", "truncated", "content"),
            ],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    keywords=("read", "file", "open", "content", "lines", "view", "cat"),
)


@dataclass(frozen=True, slots=True)
class _Read:
    """The structured content without the paths, and the bytes of a binary file within the limit."""

    members: Mapping[str, Any]
    blob: bytes | None = None


async def call(
    workspace: Workspace, arguments: Mapping[str, Any], *, settings: SearchSettings | None = None
) -> ToolResult:
    """Read `filePath`; returns the unchanged lines, or a binary file as an embedded resource.

    Raises:
        InvalidArguments: at `/filePath`, `/startLine` or `/endLine`.
        ToolError: `Error reading file "p": <cause>`.
    """
    lines = LineRange(
        int(arguments.get("startLine", 1)),
        int(arguments["endLine"]) if arguments.get("endLine") is not None else None,
        int(arguments.get("maxBytes", DEFAULT_MAX_BYTES)),
        fit="maxBytes" not in arguments,
    )
    if lines.end is not None and lines.end < lines.start:
        raise InvalidArguments("/endLine", f"must not be less than startLine ({lines.start})")
    stop = threading.Event()
    try:
        return await asyncio.to_thread(_read, workspace, arguments["filePath"], lines, stop.is_set)
    except PathNotFound as error:
        near = await neighbours(workspace, arguments["filePath"], settings or SearchSettings())
        raise _failure(arguments["filePath"], error.cause, near) from None
    finally:
        stop.set()


def _read(workspace: Workspace, text: str, lines: LineRange, stopped: Callable[[], bool]) -> ToolResult:
    try:
        path = workspace.resolve_file(text)
        descriptor = workspace.gate().open(path)
        with os.fdopen(descriptor, "rb") as file:
            read = _read_open(file, os.fstat(descriptor).st_size, lines, stopped)
            return _result(workspace, path, read, fit=lines.fit)
    except OSError as error:
        raise _failure(text, (error.strerror or "unreadable").lower()) from None


def _failure(text: str, cause: str, near: Sequence[str] = ()) -> ToolError:
    message = f'Error reading file "{well_formed(text)}": {cause}'
    if not near:
        return ToolError(message, {"cause": cause})
    hint = f"; did you mean {' or '.join(map(shown_path, near))}?"
    return ToolError(message + hint, {"cause": cause, "nearest": list(near)})


def _read_open(file: BinaryIO, size: int, lines: LineRange, stopped: Callable[[], bool]) -> _Read:
    sniffed = file.read(_SNIFF)
    encoding = next((name for bom, name in _ENCODINGS if sniffed.startswith(bom)), "utf-8")
    file.seek(0)
    if b"\0" in sniffed and not encoding.startswith("utf-16"):
        return _read_binary(file, size, lines)
    text = LineCollector(lines)
    strict = codecs.getincrementaldecoder(encoding)("strict" if encoding == "utf-8" else "replace")
    for chunk in _chunks(file, stopped):
        try:
            decoded = strict.decode(chunk, not chunk) if encoding.startswith("utf-") else ""
        except UnicodeDecodeError:
            encoding = "windows-1252"
        text.feed(decoded.encode() if encoding in {"utf-16-le", "utf-16-be", "utf-8-sig"} else chunk)
    return _text_members(text, encoding, size)


def _chunks(file: BinaryIO, stopped: Callable[[], bool]) -> Iterator[bytes]:
    """Read the file in chunks; the last one is empty."""
    while not stopped():
        chunk = file.read(_CHUNK)
        yield chunk
        if not chunk:
            return


def _text_members(text: LineCollector, encoding: str, size: int) -> _Read:
    lines, total = text.wanted, text.total
    if lines.start > max(total, 1):
        raise InvalidArguments("/startLine", f"the file has {total} lines")
    content, encoding = _decoded(bytes(text.kept), encoding)
    members = {
        "startLine": min(lines.start, total),
        "endLine": text.end,
        "totalLines": total,
        "sizeBytes": size,
        "encoding": encoding,
        "truncated": text.full,
        "content": content,
        **_next_part(text),
    }
    return _Read(members)


def _next_line(members: Mapping[str, Any]) -> list[str]:
    """The line of the text that says how to go on."""
    if "lineIsCut" in members:
        return [f"next: line {members['endLine']} is cut; maxBytes up to {MAX_BYTES} shows more of it"]
    if "nextStartLine" in members:
        return [f"next: the same call with startLine {members['nextStartLine']}"]
    return []


def _next_part(text: LineCollector) -> dict[str, Any]:
    """Where to go on after a cut; empty if there is nothing more."""
    if not text.full:
        return {}
    if not text.kept.endswith(b"\n"):
        return {"lineIsCut": True} | ({"nextStartLine": text.end + 1} if text.end < text.total else {})
    return {"nextStartLine": text.end + 1}


def _decoded(content: bytes, encoding: str) -> tuple[str, str]:
    """Decode the text; returns also the encoding that was used."""
    if encoding == "windows-1252":
        try:
            return content.decode("cp1252"), encoding
        except UnicodeDecodeError:
            return content.decode("iso-8859-1"), "iso-8859-1"
    # the byte limit may have split a character
    return content.decode("utf-8", "ignore").removeprefix("\ufeff"), encoding


def _read_binary(file: BinaryIO, size: int, lines: LineRange) -> _Read:
    blob = file.read(lines.max_bytes + 1)
    fits = len(blob) <= lines.max_bytes
    members = {
        "startLine": 0,
        "endLine": 0,
        "totalLines": 0,
        "sizeBytes": size,
        "encoding": "binary",
        "truncated": not fits,
        "content": "",
    }
    return _Read(members, blob if fits else None)


def _result(workspace: Workspace, path: Path, read: _Read, *, fit: bool) -> ToolResult:
    members = read.members
    structured = {
        "absolutePath": absolute_text(path),
        "workspacePath": workspace.workspace_path(path),
        **members,
    }
    head = [
        "Read file summary",
        f"file: {shown_path(absolute_text(path))}",
        f"lines: {members['startLine']}-{members['endLine']}/{members['totalLines']}"
        + (" (truncated)" if members["truncated"] else ""),
    ]
    if fit:
        head += _next_line(members)
    if members["encoding"] != "binary":
        text = clean_text("\n".join(head)) + "\n---\n" + members["content"]
        return ToolResult(text, structured, verbatim=True)
    head += ["encoding: binary", f"sizeBytes: {members['sizeBytes']}"]
    if read.blob is None:
        return ToolResult("\n".join(head), structured)
    resource = {
        "uri": path.as_uri(),
        "mimeType": mimetypes.guess_type(path.name)[0] or "application/octet-stream",
        "blob": base64.b64encode(read.blob).decode("ascii"),
    }
    return ToolResult("\n".join(head), structured, blocks=({"type": "resource", "resource": resource},))


@dataclass(frozen=True, slots=True)
class LineRange:
    """Which lines to keep: from `start` to `end` (None: the last), and at most `max_bytes` of them.

    `fit`: `max_bytes` is the size of a page, and was not chosen by the caller.
    """

    start: int
    end: int | None
    max_bytes: int
    fit: bool = False


@dataclass(slots=True)
class LineCollector:
    """Collects the requested lines of a text from chunks in an ASCII-compatible encoding."""

    wanted: LineRange
    kept: bytearray = field(default_factory=bytearray)
    ended: int = 0
    last_byte: int = 0x0A
    full: bool = False

    def feed(self, chunk: bytes) -> None:
        """Count the lines of the next chunk, and keep the requested ones."""
        if not chunk:
            return
        at = 0
        while not self._past_end and at < len(chunk):
            newline = chunk.find(b"\n", at)
            stop = newline + 1 if newline >= 0 else len(chunk)
            if self.ended + 1 >= self.wanted.start:
                self._keep(chunk[at:stop])
            self.ended += newline >= 0
            at = stop
        self.ended += chunk.count(b"\n", at)
        self.last_byte = chunk[-1]

    def _keep(self, piece: bytes) -> None:
        room = self.wanted.max_bytes - len(self.kept)
        self.full = self.full or len(piece) > room
        self.kept += piece[:room]
        if self.full and b"\n" in self.kept:  # the client reads on at the next line, so keep only whole lines
            del self.kept[self.kept.rindex(b"\n") + 1 :]

    @property
    def _past_end(self) -> bool:
        return self.full or (self.wanted.end is not None and self.ended >= self.wanted.end)

    @property
    def end(self) -> int:
        """Number of the last kept line."""
        lines = self.kept.count(b"\n") + (bool(self.kept) and self.kept[-1] != 0x0A)
        return min(self.wanted.start + max(lines, 1) - 1, self.total)

    @property
    def total(self) -> int:
        """Number of lines in the file; a line end at the end of the file starts no new line."""
        return self.ended + (self.last_byte != 0x0A)
