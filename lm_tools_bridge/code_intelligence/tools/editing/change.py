"""Plans what the operations of a `WorkspaceEdit` do to files, and refuses what must not be done. Blocks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lm_tools_bridge.code_intelligence.server import PositionEncoding
from lm_tools_bridge.code_intelligence.tools.editing import file_content
from lm_tools_bridge.code_intelligence.tools.editing.file_content import FileContent, Unchangeable
from lm_tools_bridge.code_intelligence.wire.workspace_edits import (
    CreateFile,
    DeleteFile,
    EditFile,
    EditRefused,
    Operation,
    RenameFile,
    apply_edits,
)
from workspace_server.workspace import Workspace

MAX_FILES: Final = 2000
"""Files of one change: all of them are held in memory, before and after."""
NEW_MODE: Final = 0o644
"""A new file of a project is readable by others, as editors make it with the usual umask."""
Kind = Literal["changed", "created", "deleted"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """What becomes of one file.

    Attributes:
        path: absolute and link-free.
        before: its bytes as they are now; None if it is not there.
        after: its bytes as they shall be; None if it is removed.
        mode: its permissions.
        old_text, new_text: the same for people.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int
    old_text: str
    new_text: str

    @property
    def kind(self) -> Kind:
        """What happens to it."""
        if self.before is None:
            return "created"
        return "deleted" if self.after is None else "changed"


@dataclass(slots=True)
class _State:
    """A file while operations are tried.

    `content` is what is on disk, `text` what it has by now, each None if the file is not there; `form` has
    encoding and line ends.
    """

    content: FileContent | None
    text: str | None
    mode: int
    form: FileContent | None


class Planner:
    """Tries operations without touching a file.

    Args:
        workspace: whose files may be changed.
        encoding: the server's unit of positions.
        newest_ns: a file that changed later than this is not what the server has seen.
        reads_links: whether links are followed inside the workspace, which is for plans that are only shown.
    """

    def __init__(
        self, workspace: Workspace, encoding: PositionEncoding, newest_ns: int, *, reads_links: bool = False
    ) -> None:
        self._workspace = workspace
        self._encoding = encoding
        self._newest_ns = newest_ns
        self._gate = workspace.gate()
        self._reads_links = reads_links
        self._states: dict[Path, _State] = {}
        self.links: list[Path] = []

    def plan(self, operations: Sequence[Operation]) -> list[FileChange]:
        """The changes of all files, by path.

        Raises:
            Unchangeable: an operation cannot be done, or must not be; nothing is done then.
        """
        for operation in operations:
            match operation:
                case EditFile():
                    self._edit(operation)
                case CreateFile():
                    self._create(operation)
                case RenameFile():
                    self._rename(operation)
                case DeleteFile():
                    self._delete(operation)
            if len(self._states) > MAX_FILES:
                raise Unchangeable(f"the change is about more than {MAX_FILES} files")
        changes = (self._change(path, state) for path, state in sorted(self._states.items()))
        return [change for change in changes if change.before != change.after]

    def _edit(self, operation: EditFile) -> None:
        state = self._state(operation.path)
        if state.text is None:
            raise self._refusal(operation.path, "it does not exist")
        edits = operation.edits
        if state.form is not None:
            own = state.form.with_own_line_ends
            edits = [{**edit, "newText": own(edit["newText"])} for edit in edits]
        edited = apply_edits(state.text, edits, self._encoding)
        if isinstance(edited, EditRefused):
            raise self._refusal(operation.path, edited.reason)
        state.text = edited

    def _create(self, operation: CreateFile) -> None:
        state = self._state(operation.path)
        if state.text is not None:
            if operation.ignore_if_exists and not operation.overwrite:
                return
            if not operation.overwrite:
                raise self._refusal(operation.path, "it exists already")
        state.text = ""

    def _rename(self, operation: RenameFile) -> None:
        source, target = self._state(operation.path), self._state(operation.new_path)
        if source.text is None:
            raise self._refusal(operation.path, "it does not exist")
        if target.text is not None and not operation.overwrite:
            if operation.ignore_if_exists:
                return
            raise self._refusal(operation.new_path, "it exists already")
        # the new file keeps encoding and permissions of the old one
        target.text, target.mode, target.form = source.text, source.mode, source.form
        source.text = None

    def _delete(self, operation: DeleteFile) -> None:
        state = self._state(operation.path)
        if state.text is None and not operation.ignore_if_not_exists:
            raise self._refusal(operation.path, "it does not exist")
        state.text = None

    def _state(self, path: Path) -> _State:
        if path not in self._states:
            self._check_place(path)
            content = None
            if os.path.lexists(path):
                try:
                    content = file_content.read_content(self._place_of(path), self._gate)
                except Unchangeable as refused:
                    raise self._refusal(path, str(refused)) from None
                if content.changed_ns > self._newest_ns:
                    raise self._refusal(path, "it changed meanwhile; call again")
            text = None if content is None else content.text
            mode = NEW_MODE if content is None else content.mode
            self._states[path] = _State(content, text, mode, content)
        return self._states[path]

    def _place_of(self, path: Path) -> Path:
        """Where to read a file: itself, or what a link leads to where links are followed."""
        real = Path(os.path.realpath(path)) if self._reads_links else path
        if real != path:
            if not self._workspace.contains(real):
                raise Unchangeable("it is a link that leads out of the workspace")
            self.links.append(path)
        return real

    def _check_place(self, path: Path) -> None:
        """Only files in the workspace are changed, and none through a link."""
        folder = path.parent
        real = Path(os.path.realpath(folder))
        if not self._workspace.contains(real / path.name):
            raise self._refusal(path, "it lies outside the workspace")
        if real != folder and not self._reads_links:
            raise self._refusal(path, "it is behind a link")
        if ".git" in path.parts:
            raise self._refusal(path, "it belongs to git")
        if not folder.is_dir():
            raise self._refusal(path, "its folder does not exist")

    def _refusal(self, path: Path, reason: str) -> Unchangeable:
        name = self._workspace.workspace_path(path) or path.as_posix()
        return Unchangeable(f"{name}: {reason}. No file was changed")

    def _change(self, path: Path, state: _State) -> FileChange:
        before = None if state.content is None else state.content.data
        old = "" if state.content is None else state.content.text
        if state.text is None:
            return FileChange(path, before, None, state.mode, old, "")
        try:
            after = state.text.encode() if state.form is None else state.form.encoded(state.text)
        except UnicodeEncodeError:
            raise self._refusal(path, "the new text cannot be encoded") from None
        return FileChange(path, before, after, state.mode, old, state.text)
