"""Decides which servers move from files of clients into a `workspace.toml`. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lm_tools_bridge.client_setup.adoption.file_formats import PROJECT_FILES, ServersFile
from lm_tools_bridge.client_setup.adoption.project_entry import TomlEntry, Untranslatable, translate
from lm_tools_bridge.client_setup.change import BOM, Change, decoded, refused, value_at
from lm_tools_bridge.client_setup.editing import jsonc_edit, toml_edit
from lm_tools_bridge.client_setup.refusals import FormProblem, Refusal
from lm_tools_bridge.protocol.internal.client_traits import namespace_of
from lm_tools_bridge.text.jsonc_parser import Node, parse
from lm_tools_bridge.text.syntax_problems import SyntaxProblem

WORKSPACE_FILE: Final = ".lm-tools-bridge/workspace.toml"
USER_FILE: Final = "workspace.toml"
"""In the user's configuration folder."""
MAX_BYTES: Final = 1024 * 1024
"""Size of a project's file; the workspace server reads no larger ones."""
MAX_WORK: Final = 4_000_000
"""Servers to move, times the bytes of the largest file, which is parsed again for each of them."""
_NUMBERED: Final = re.compile(r"(.+)_\d+")

Contents = Mapping[str, bytes | None]
"""Files by the paths of `ServersFile`; None if there is no such file."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server in a client's file; `reason` says why it stays there, None if it moves."""

    name: str
    file: ServersFile
    entry: Any
    reason: str | None = None

    @property
    def is_started(self) -> bool:
        """Whether the client starts it, or connects to it."""
        return not (isinstance(self.entry, dict) and self.entry.get("disabled") is True)


@dataclass(frozen=True, slots=True)
class Adoption:
    """What is to be done: the changes by path, `workspace.toml` first, and what becomes of each server.

    A server that moves is no longer started by its client; with the file kept, only the client is told so.
    """

    changes: Mapping[str, Change]
    servers: tuple[Server, ...]

    @property
    def moved(self) -> tuple[Server, ...]:
        """The servers that move."""
        return tuple(server for server in self.servers if server.reason is None)

    @property
    def left(self) -> tuple[Server, ...]:
        """The servers that stay where they are."""
        return tuple(server for server in self.servers if server.reason is not None)


def decide(
    contents: Contents,
    names: Collection[str] = (),
    files: Sequence[ServersFile] = PROJECT_FILES,
    target: str = WORKSPACE_FILE,
) -> Adoption | Refusal:
    """What moves, and the new content of each file.

    Args:
        contents: the target and the files.
        names: the servers to move; all if empty.
        files: where servers may be, the one with precedence first.
        target: the path of the `workspace.toml`.
    """
    texts = texts_of(contents, target)
    if isinstance(texts, Refusal):
        return texts
    present = _present(texts.get(target, ""), target)
    if isinstance(present, Refusal):
        return present
    entries = list_entries(texts, files)
    if isinstance(entries, Refusal):
        return entries
    return _Decision(target, present, entries, names).adoption(contents, texts)


def texts_of(contents: Contents, target: str) -> dict[str, str] | Refusal:
    """The texts of files by path; refused if one of a project's is too large, or one is not UTF-8."""
    texts: dict[str, str] = {}
    for path, content in contents.items():
        if target == WORKSPACE_FILE and len(content or b"") > MAX_BYTES:
            problem = f"{path} is larger than {MAX_BYTES >> 20} MiB, and has no effect"
            return Refusal("too_large", problem, "edit the file by hand")
        text = decoded(content or b"", path)
        if isinstance(text, Refusal):
            return text
        texts[path] = text
    return texts


def _present(text: str, target: str) -> list[str] | Refusal:
    """The namespaces in a `workspace.toml`."""
    mcp = toml_edit.value_at(text, ("mcp",))
    if isinstance(mcp, SyntaxProblem | FormProblem):
        return refused(mcp, target)
    arrays = (
        [mcp.get(key, []) for key in ("stdio_servers", "remote_servers")] if isinstance(mcp, dict) else []
    )
    entries = [
        entry for array in arrays if isinstance(array, list) for entry in array if isinstance(entry, dict)
    ]
    return [namespace_of(str(entry.get("namespace", ""))) for entry in entries]


def list_entries(
    texts: Mapping[str, str], files: Sequence[ServersFile]
) -> list[tuple[ServersFile, str, Any]] | Refusal:
    """Every entry of the clients' files, in their order."""
    entries: list[tuple[ServersFile, str, Any]] = []
    for file in files:
        servers = value_at(texts.get(file.path, ""), file.form, file.container)
        if isinstance(servers, SyntaxProblem | FormProblem):
            return refused(servers, file.path)
        if servers is not None and not isinstance(servers, dict):
            return refused(FormProblem("not_an_object", f'"{file.member}" is not an object'), file.path)
        entries += [(file, name, entry) for name, entry in (servers or {}).items()]
    return entries


@dataclass(slots=True)
class _Decision:
    target: str
    present: list[str]
    listed: list[tuple[ServersFile, str, Any]]
    names: Collection[str]
    moving: dict[str, tuple[ServersFile, TomlEntry]] = field(default_factory=dict)
    staying: dict[str, ServersFile] = field(default_factory=dict)
    counts: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = Counter([*self.present, *(namespace_of(name) for _, name, _ in self.listed)])

    def adoption(self, contents: Contents, texts: Mapping[str, str]) -> Adoption | Refusal:
        servers = []
        for file, name, entry in self.listed:
            is_chosen = not self.names or name in self.names
            reason = self._reason(file, name, entry) if is_chosen else ""
            if reason is not None:
                self.staying.setdefault(namespace_of(name), file)
            if is_chosen:
                servers.append(Server(name, file, entry, reason))
        changed = self._changed_texts(texts, [server for server in servers if server.reason is None])
        if isinstance(changed, Refusal):
            return changed
        changes = {path: _change(contents.get(path), text) for path, text in changed.items()}
        return Adoption(changes, tuple(servers))

    def _reason(self, file: ServersFile, name: str, entry: Any) -> str | None:
        """Why an entry stays in its file; None if it moves."""
        own = namespace_of(name)
        entry_table = translate(name, entry, file)
        if isinstance(entry_table, Untranslatable):
            return entry_table.reason
        if own in self.present:
            return f"{self.target} has a server of this name"
        if own in self.staying:
            return f"another server of this name stays in {self.staying[own].path}"
        if own in self.moving:
            first, first_table = self.moving[own]
            if entry_table.essence != first_table.essence:
                return f"the server of this name in {first.path} differs"
            self.moving[own] = (first, first_table.also_in(entry_table))
            return None
        if self._is_taken_by_number(own):
            return "its name may be given to a second server of the name before the number"
        self.moving[own] = (file, entry_table)
        return None

    def _is_taken_by_number(self, own: str) -> bool:
        """Whether the workspace server may give this name to the second of two servers with one name."""
        match = _NUMBERED.fullmatch(own)
        return match is not None and self.counts[match[1]] > 1

    def _changed_texts(self, texts: Mapping[str, str], moved: list[Server]) -> dict[str, str] | Refusal:
        if not moved:
            return {}
        if self.target == WORKSPACE_FILE and len(moved) * max(map(len, texts.values())) > MAX_WORK:
            text = f"moving {len(moved)} servers at once out of such large files takes too long"
            return Refusal("too_large", text, "name some of them: lmtb adopt NAME …")
        comments: dict[str, list[str]] = {}
        changed: dict[str, str] = {self.target: ""}
        for server in moved:
            text = changed.get(server.file.path, texts[server.file.path])
            without = _without(text, server)
            if not isinstance(without, str):
                return refused(without, server.file.path)
            comments.setdefault(namespace_of(server.name), []).extend(_comments(text, without, server))
            changed[server.file.path] = without
        entries = [
            (("mcp", entry.kind), entry.table, comments[own]) for own, (_, entry) in self.moving.items()
        ]
        toml = toml_edit.with_appended(texts.get(self.target, ""), entries)
        if not isinstance(toml, str):
            return refused(toml, self.target)
        return {**changed, self.target: toml}


def _without(text: str, server: Server) -> str | SyntaxProblem | FormProblem:
    path = (*server.file.container, server.name)
    if server.file.dialect is None:
        return toml_edit.without_table(text, path)
    return jsonc_edit.without_member(text, path, server.file.dialect)


def _comments(text: str, without: str, server: Server) -> Iterator[str]:
    """The comments inside of an entry, as those of TOML."""
    if server.file.dialect is None:
        yield from (toml_edit.comments(text) - toml_edit.comments(without)).elements()
        return
    document = parse(text, server.file.dialect)
    if isinstance(document, SyntaxProblem):
        return
    node: Node | None = document.root
    member = None
    for name in (*server.file.container, server.name):
        member = node.member(name) if node is not None else None
        node = member.value if member is not None else None
    for start, end in document.comments:
        if member is not None and member.start <= start < member.value.end:
            words = text[start:end].removeprefix("//").removeprefix("/*").removesuffix("*/")
            yield from (f"# {line.strip()}".rstrip() for line in words.splitlines() if line.strip())


def _change(before: bytes | None, text: str) -> Change:
    mark = BOM if before is not None and before.startswith(BOM) else b""
    return Change(before, mark + text.encode())
