"""Changes the servers of a YAML file: a list of objects with names, or an object of servers. Pure.

A server is added and removed as lines of text, which the parser has told; every other line stays. The result
is parsed and compared. What is written in another form is left to its user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.client_setup.refusals import FormProblem
from lm_tools_bridge.text.syntax_problems import SyntaxProblem

Problem = SyntaxProblem | FormProblem
_NO_FILE: Final = FormProblem(
    "unsupported_form",
    "it is missing or empty, and servers alone are no configuration: start the client once",
)
_BY_HAND: Final = FormProblem("unsupported_form", "it is written in a form that cannot be changed safely")


@dataclass(frozen=True, slots=True)
class YamlForm:
    """How a client writes its servers in YAML.

    Attributes:
        is_list: whether they are a list of objects with the member `name`; else an object by name.
        members: what this client calls members of an entry -> what most clients call them.
    """

    is_list: bool = True
    members: tuple[tuple[str, str], ...] = ()

    def read_servers(self, value: Any) -> Any:
        """The servers by name, with the usual names of members; another value stays."""
        if self.is_list:
            return _servers_by_name(value)
        usual = dict(self.members)
        if not isinstance(value, dict) or not usual:
            return value
        return {
            name: {usual.get(key, key): member for key, member in server.items()}
            if isinstance(server, dict)
            else server
            for name, server in value.items()
        }

    def server(self, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        """What is written for a server: an item of the list, or a member of the object."""
        if self.is_list:
            return {"name": name, **entry}
        own = {usual: key for key, usual in self.members}
        return {name: {own.get(key, key): member for key, member in entry.items()}}


LIST: Final = YamlForm()


def value_at(text: str, path: Sequence[str], form: YamlForm = LIST) -> Any | Problem:
    """The value at a path of names; None if it is missing. Objects of a list are named by their `name`."""
    value = _parsed(text)
    for depth, key in enumerate(path):
        if value is None or isinstance(value, SyntaxProblem):
            return value
        if not isinstance(value, dict):
            return FormProblem("not_an_object", f"{'.'.join(path[:depth]) or 'the file'} is not an object")
        value = value.get(key)
        if depth == 0 or form.is_list:
            value = form.read_servers(value)
    return value


def with_server(
    text: str, path: tuple[str, str], entry: Mapping[str, Any], form: YamlForm = LIST
) -> str | Problem:
    """The text with a server at (container, name), in the place of the one of this name or as the first."""
    whole = _parsed(text)
    if not isinstance(whole, dict):
        return _NO_FILE if whole is None else _BY_HAND
    container, name = path
    server = form.server(name, entry)
    if container not in whole:
        newline = _newline(text)
        gap = "" if not text or text.endswith("\n") else newline
        changed = text + gap + f"{container}:{newline}" + _block(server, 2, newline, form)
        return _checked(text, changed, {**whole, container: [server] if form.is_list else server})
    place = _Place.of(text, container, form)
    if place is None:
        return _BY_HAND
    servers = whole[container] or ([] if form.is_list else {})
    index = _index(servers, name)
    first, last = (place.key_line + 1, place.key_line) if index is None else place.items[index]
    changed = _put(text, first, last, _block(server, place.indent, _newline(text), form))
    return _checked(text, changed, {**whole, container: _joined(servers, index, server)})


def _joined(servers: Any, index: int | None, server: dict[str, Any]) -> Any:
    """The servers with another one, in the place of one or before all."""
    if isinstance(servers, dict):
        return {**servers, **server}
    return [server, *servers] if index is None else [*servers[:index], server, *servers[index + 1 :]]


def without_server(text: str, path: tuple[str, str], form: YamlForm = LIST) -> str | Problem:
    """The text without the server at (container, name), which must exist; an empty container goes, too."""
    whole, place = _parsed(text), _Place.of(text, path[0], form)
    if not isinstance(whole, dict) or place is None:
        return _BY_HAND
    servers = whole[path[0]]
    index = _index(servers, path[1])
    if index is None:
        return _BY_HAND
    first, last = place.items[index]
    other_servers = _without(servers, index, path[1])
    expected = (
        {**whole, path[0]: other_servers}
        if other_servers
        else {k: v for k, v in whole.items() if k != path[0]}
    )
    lines = text.splitlines(keepends=True)
    kept_lines = [*lines[:first], *lines[last + 1 :]]
    if not other_servers:
        del kept_lines[place.key_line]
    return _checked(text, "".join(kept_lines), expected)


def _without(servers: Any, index: int, name: str) -> Any:
    """The other servers."""
    if isinstance(servers, dict):
        return {key: server for key, server in servers.items() if key != name}
    return [*servers[:index], *servers[index + 1 :]]


def text_of(container: str, name: str, entry: Mapping[str, Any], form: YamlForm = LIST) -> str:
    """One server with what is around it, as it stands in a file."""
    return f"{container}:\n{_block(form.server(name, entry), 2, chr(10), form)}".rstrip()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the servers are in a text.

    Attributes:
        key_line: the line with its name and nothing else.
        indent: the columns in front of its items.
        items: the first and the last line of each item.
    """

    key_line: int
    indent: int
    items: list[tuple[int, int]]

    @classmethod
    def of(cls, text: str, container: str, form: YamlForm) -> _Place | None:
        """The place of servers that begin lines of their own; None for another form."""
        import yaml

        root = yaml.compose(text, Loader=yaml.SafeLoader)
        pairs = root.value if isinstance(root, yaml.MappingNode) else []
        key, node = next((pair for pair in pairs if pair[0].value == container), (None, None))
        lines = text.splitlines()
        if key is None or lines[key.start_mark.line].partition("#")[0].rstrip() != f"{container}:":
            return None
        if not isinstance(node, yaml.SequenceNode if form.is_list else yaml.MappingNode):
            return cls(key.start_mark.line, 2, [])
        indent = node.start_mark.column
        parts = [(item, item) for item in node.value] if form.is_list else node.value
        items = [(first.start_mark.line, _last_line(last)) for first, last in parts]
        beginning = " " * indent + ("- " if form.is_list else "")
        is_block = all(lines[first].startswith(beginning) for first, _ in items)
        return cls(key.start_mark.line, indent, items) if is_block and not node.flow_style else None


def _last_line(node: Any) -> int:
    """The last line with a part of a node; the marks of collections are behind the comments after them."""
    if isinstance(node.value, str):
        line, column = int(node.end_mark.line), node.end_mark.column
        return line - 1 if column == 0 and line > node.start_mark.line else line
    parts = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
    lines = [_last_line(part) for part in parts]
    return max(lines, default=int(node.end_mark.line))


def _put(text: str, first: int, last: int, block: str) -> str:
    """The text with a block in the place of these lines; in front of the first if it is behind the last."""
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:first], block, *lines[last + 1 :]])


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _block(server: Mapping[str, Any], indent: int, newline: str, form: YamlForm) -> str:
    import yaml

    written = [server] if form.is_list else dict(server)
    dumped = yaml.safe_dump(written, sort_keys=False, allow_unicode=True, width=10_000)
    return "".join(f"{' ' * indent}{line}{newline}" for line in dumped.splitlines())


def _index(servers: Any, name: str) -> int | None:
    if isinstance(servers, dict):
        return next((at for at, key in enumerate(servers) if key == name), None)
    indexes = (
        at for at, server in enumerate(servers) if isinstance(server, dict) and server.get("name") == name
    )
    return next(indexes, None)


def _servers_by_name(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    objects = (item for item in value if isinstance(item, dict) and isinstance(item.get("name"), str))
    return {
        item["name"]: {key: value_of_key for key, value_of_key in item.items() if key != "name"}
        for item in objects
    }


def _parsed(text: str) -> Any | SyntaxProblem:
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        return SyntaxProblem(line, str(getattr(error, "problem", None) or error))


def _checked(text: str, changed: str, expected: Any) -> str | Problem:
    """The changed text, if it says what it should and no comment line is lost."""
    lost = _comments(text) - _comments(changed)
    return changed if _parsed(changed) == expected and not lost else _BY_HAND


def _comments(text: str) -> Counter[str]:
    return Counter(line.partition("#")[2].strip() for line in text.splitlines() if "#" in line)
