"""Decides how the bytes of a client's file change when our entry is added or removed. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from lm_tools_bridge.client_setup.editing import jsonc_edit, toml_edit, yaml_servers
from lm_tools_bridge.client_setup.editing.yaml_servers import YamlForm
from lm_tools_bridge.client_setup.entries import Entry, address_of, flat, upgraded
from lm_tools_bridge.client_setup.refusals import FormProblem, Refusal
from lm_tools_bridge.text.jsonc_parser import Dialect
from lm_tools_bridge.text.syntax_problems import SyntaxProblem

ENTRY_NAME: Final = "lm-tools-bridge"
BOM: Final = b"\xef\xbb\xbf"
"""The byte order mark, which stays where a file has one."""
_PROGRAMS: Final = frozenset({"lmtb", "lm-tools-bridge"})
_HOOK: Final = ["hook", "post-edit"]
"""The verb that a hook runs."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})

EntryState = Literal["missing", "current", "outdated", "not_ours"]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How a file is written.

    Attributes:
        container: the name of the object in it that has the servers.
        dialect: of JSON; None for TOML and YAML.
        yaml: how the servers are written, if it is YAML.
        hook_event: the event whose list of hooks has our entry, in place of a server; empty for servers.
    """

    container: str
    dialect: Dialect | None
    yaml: YamlForm | None = None
    hook_event: str = ""

    @property
    def path(self) -> tuple[str, str]:
        """Where our entry is, or the list that has it."""
        return (self.container, self.hook_event or ENTRY_NAME)


@dataclass(frozen=True, slots=True)
class Change:
    """New content for a file; `before` is None if there was no file."""

    before: bytes | None
    after: bytes


@dataclass(frozen=True, slots=True)
class Unchanged:
    """There is nothing to do."""


def entry_in(content: bytes | None, form: FileFormat, file: str) -> Entry | Refusal | None:
    """Our entry as it is in a file, None if it is missing, or why the file cannot be understood.

    Args:
        content: the file's bytes; None without a file.
        form: how the client reads it.
        file: its name for messages.
    """
    text = decoded(content or b"", file)
    if isinstance(text, Refusal):
        return text
    entry = value_at(text, form, form.path)
    if form.hook_event and not isinstance(entry, SyntaxProblem | FormProblem):
        entry = hook_in(entry)
    if isinstance(entry, SyntaxProblem | FormProblem):
        return refused(entry, file)
    if entry is not None and not isinstance(entry, dict):
        return refused(FormProblem("not_an_object", f'the entry "{ENTRY_NAME}" is not an object'), file)
    return entry


def state_of(present: Entry | None, new_entry: Entry) -> EntryState:
    """What the entry that is in a file means to us."""
    if present is None:
        return "missing"
    if is_our_hook(present):
        return "current" if upgraded_hook(present, new_entry) == present else "outdated"
    if not is_ours(present):
        return "not_ours"
    return "current" if upgraded(present, new_entry) == present else "outdated"


def is_ours(entry: Entry) -> bool:
    """Whether an entry leads to a manager on this machine, or starts `lmtb connect`."""
    address = address_of(entry)
    if address is not None:
        return _is_manager(address)
    members = flat(entry)
    command, arguments = members.get("command"), members.get("args")
    if not isinstance(command, str) or not isinstance(arguments, list):
        return False
    name = command.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    return name in _PROGRAMS and arguments[:1] == ["connect"]


def addition(
    content: bytes | None, form: FileFormat, new_entry: Entry, file: str, *, force: bool = False
) -> Change | Unchanged | Refusal:
    """Add our entry, or bring it up to date and keep what the user added to it.

    Args:
        content, form, file: as for `entry_in`.
        new_entry: the entry that we write.
        force: whether an entry of our name that is not ours is replaced.
    """
    present = entry_in(content, form, file)
    if isinstance(present, Refusal):
        return present
    state = state_of(present, new_entry)
    if state == "current":
        return Unchanged()
    if state == "not_ours" and not force:
        return _not_ours(file)
    text = decoded(content or b"", file)
    if isinstance(text, Refusal):
        return text
    if form.hook_event and form.dialect is not None:
        entry = new_entry if present is None else upgraded_hook(present, new_entry)
        hooks = with_hook(value_at(text, form, form.path), entry)
        return _change(content, jsonc_edit.with_member(text, form.path, hooks, form.dialect), file)
    entry = upgraded(present, new_entry) if present is not None and state == "outdated" else new_entry
    return _change(content, _with_entry(text, form, present, entry), file)


def removal(
    content: bytes | None, form: FileFormat, file: str, *, force: bool = False
) -> Change | Unchanged | Refusal:
    """Take our entry out. The arguments are those of `addition`."""
    present = entry_in(content, form, file)
    if isinstance(present, Refusal):
        return present
    if present is None:
        return Unchanged()
    if not (is_our_hook(present) or is_ours(present)) and not force:
        return _not_ours(file)
    text = decoded(content or b"", file)
    if isinstance(text, Refusal):
        return text
    if form.hook_event and form.dialect is not None:
        return _change(content, _without_hook(text, form, form.dialect), file)
    if form.yaml is not None:
        return _change(content, yaml_servers.without_server(text, form.path, form.yaml), file)
    if form.dialect is None:
        return _change(content, toml_edit.without_table(text, form.path), file)
    return _change(content, jsonc_edit.without_member(text, form.path, form.dialect), file)


def _without_hook(text: str, form: FileFormat, dialect: Dialect) -> str | SyntaxProblem | FormProblem:
    """The text without our hook, and without the list or object that has nothing else."""
    hooks = without_hook(value_at(text, form, form.path))
    if hooks:
        return jsonc_edit.with_member(text, form.path, hooks, dialect)
    container = value_at(text, form, form.path[:1])
    is_alone = isinstance(container, dict) and len(container) == 1
    return jsonc_edit.without_member(text, form.path[:1] if is_alone else form.path, dialect)


def value_at(text: str, form: FileFormat, path: Sequence[str]) -> Any | SyntaxProblem | FormProblem:
    """The value at a path of names in a file's text; None if it is missing."""
    if form.yaml is not None:
        return yaml_servers.value_at(text, path, form.yaml)
    if form.dialect is None:
        return toml_edit.value_at(text, path)
    return jsonc_edit.value_at(text, path, form.dialect)


def _with_entry(
    text: str, form: FileFormat, present: Entry | None, entry: Entry
) -> str | SyntaxProblem | FormProblem:
    if form.yaml is not None:
        return yaml_servers.with_server(text, form.path, entry, form.yaml)
    if form.dialect is None:
        return toml_edit.with_table(text, form.path, entry)
    if present is None or not is_ours(present):
        return jsonc_edit.with_member(text, form.path, entry, form.dialect)
    changed: str | SyntaxProblem | FormProblem = text
    for key, value in entry.items():  # one by one, so that comments in the entry stay
        if present.get(key) != value and isinstance(changed, str):
            changed = jsonc_edit.with_member(changed, (*form.path, key), value, form.dialect)
    for key in present.keys() - entry.keys():
        if isinstance(changed, str):
            changed = jsonc_edit.without_member(changed, (*form.path, key), form.dialect)
    return changed


def _is_manager(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    ends = parts.path == "/mcp" or (parts.path.startswith("/w/") and parts.path.endswith("/mcp"))
    return parts.hostname in _LOOPBACK and ends


def decoded(content: bytes, file: str) -> str | Refusal:
    """The text of a file without byte order mark, or why it is none."""
    try:
        return content.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return refused(SyntaxProblem(line, "the text is not UTF-8"), file)


def _change(
    content: bytes | None, text: str | SyntaxProblem | FormProblem, file: str
) -> Change | Unchanged | Refusal:
    if isinstance(text, SyntaxProblem | FormProblem):
        return refused(text, file)
    mark = BOM if content is not None and content.startswith(BOM) else b""
    return Change(content, mark + text.encode())


def refused(problem: SyntaxProblem | FormProblem, file: str) -> Refusal:
    """The refusal of a file with this problem."""
    if isinstance(problem, FormProblem):
        return Refusal(problem.reason, f"{file}: {problem.text}", "edit the file by hand")
    where = file if problem.line is None else f"{file}, line {problem.line}"
    return Refusal(
        "invalid_syntax", f"{where}: {problem.text}", "correct the file, then try again", problem.line
    )


def _not_ours(file: str) -> Refusal:
    text = f'{file} has an entry "{ENTRY_NAME}" that does not lead to this program'
    return Refusal("not_ours", text, "rename that entry, or replace it with: lmtb client add --force")


def is_our_hook(entry: Any) -> bool:
    """Whether an entry of a list of hooks runs `lmtb hook post-edit`, and nothing else."""
    hooks = entry.get("hooks") if isinstance(entry, Mapping) else None
    return isinstance(hooks, list) and bool(hooks) and all(map(_is_our_command, hooks))


def hook_in(hooks: Any) -> Mapping[str, Any] | FormProblem | None:
    """Our entry in the value of a list of hooks; None without one."""
    if hooks is None:
        return None
    if not isinstance(hooks, list):
        return FormProblem("unsupported_form", "the hooks are not a list")
    return next((entry for entry in hooks if is_our_hook(entry)), None)


def upgraded_hook(present: Mapping[str, Any], new_entry: Mapping[str, Any]) -> dict[str, Any]:
    """Our entry with the program where it is today, and with what its user changed."""
    command = new_entry["hooks"][0]["command"]
    return {**present, "hooks": [{**hook, "command": command} for hook in present["hooks"]]}


def with_hook(hooks: Any, entry: Mapping[str, Any]) -> list[Any]:
    """The list with our entry in its place, else at its end."""
    present = list(hooks or ())
    if any(map(is_our_hook, present)):
        return [entry if is_our_hook(each) else each for each in present]
    return [*present, entry]


def without_hook(hooks: Any) -> list[Any]:
    """The list without our entry."""
    return [each for each in hooks or () if not is_our_hook(each)]


def _is_our_command(hook: Any) -> bool:
    command = hook.get("command") if isinstance(hook, Mapping) else None
    if not isinstance(command, str):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    name = words[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe") if words else ""
    return name in _PROGRAMS and words[1:] == _HOOK
