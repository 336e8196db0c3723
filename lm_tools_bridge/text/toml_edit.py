"""Changes values in the text of a TOML file, and keeps comments and formatting. Pure.

The same change is made to the text as a second parser reads it: the new text must say exactly that.
`client_setup/editing/toml_edit.py` changes files of other programs, in which every character stays.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from lm_tools_bridge.text.toml_text import check_editable

Document = MutableMapping[str, Any]


class NotEditableError(ValueError):
    """A text cannot be changed; the message says why."""


def edit_text(text: str, change: Callable[[Document], None]) -> str:
    """The text after a change.

    Args:
        text: the text of a file.
        change: changes a document with the functions of this module. It is called twice: for the text as it
            is written, and for its values alone.

    Raises:
        NotEditableError: the text is not TOML, or the change does not fit it.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        check_editable(text)
        document = tomlkit.parse(text)
        change(document)
        written = tomlkit.dumps(document)
        written.encode()  # a name that is not Unicode cannot be written
        expected = tomllib.loads(text)
        change(expected)
        is_kept = tomllib.loads(written) == expected
    except NotEditableError:
        raise
    except (TOMLKitError, ValueError) as error:
        raise NotEditableError(str(error)) from error
    if not is_kept:
        raise NotEditableError("this change cannot keep its formatting; edit the file by hand")
    return written


def find_value(document: Any, keys: Sequence[str]) -> Any:
    """The value at a path of keys; None if there is none."""
    for key in keys:
        if not isinstance(document, Mapping) or key not in document:
            return None
        document = document[key]
    return document


def put_value(document: Document, keys: Sequence[str], value: Any) -> None:
    """Set the value at a path of keys, and create missing tables. An equal value stays as it is written.

    Raises:
        NotEditableError: a key on the path has no table.
    """
    *folders, last = keys
    for key in folders:
        document = _table_at(document, key)
    if isinstance(value, list) and isinstance(document.get(last), list):
        _rewrite(document[last], value)
    elif document.get(last) != value or isinstance(document.get(last), bool) != isinstance(value, bool):
        document[last] = value


def append_table(document: Document, keys: Sequence[str], members: Mapping[str, Any]) -> None:
    """Append a table to the array of tables at a path of keys, which is created if it is missing.

    Raises:
        NotEditableError: there is something else at the path.
    """
    *folders, last = keys
    for key in folders:
        document = _table_at(document, key)
    if last not in document:
        document[last] = [] if type(document) is dict else _new_array()
    if not isinstance(document[last], list):
        raise NotEditableError(f'"{last}" is not an array')
    tables = document[last]
    if tables and type(document) is not dict:
        _end_with_blank_line(tables[-1])
    tables.append(dict(members) if type(document) is dict else _new_table(members))


def remove_value(document: Document, keys: Sequence[str], *, prune: bool = True) -> None:
    """Remove the value at a path of keys; with `prune` also the tables that become empty."""
    *folders, last = keys
    parents = [document]
    for key in folders:
        below = parents[-1].get(key)
        if not isinstance(below, MutableMapping):
            return
        parents.append(below)
    parents[-1].pop(last, None)
    if prune:
        for parent, key in zip(reversed(parents[:-1]), reversed(folders), strict=True):
            if not parent[key]:
                del parent[key]


def _table_at(document: Document, key: str) -> Document:
    if key not in document:
        document[key] = {} if type(document) is dict else _new_table({})
    table = document[key]
    if not isinstance(table, MutableMapping):
        raise NotEditableError(f'"{key}" is not a table')
    return table


def _new_table(members: Mapping[str, Any]) -> Any:
    import tomlkit

    table = tomlkit.table()
    table.update(members)
    return table


def _end_with_blank_line(table: Any) -> None:
    import tomlkit

    if not tomlkit.dumps(table).endswith("\n\n"):
        table.add(tomlkit.nl())


def _new_array() -> Any:
    import tomlkit

    return tomlkit.aot()


def _rewrite(array: list[Any], values: Sequence[str]) -> None:
    """Make an array equal to the values item by item, so that comments between items are kept."""
    for position in reversed(range(len(array))):
        if array[position] not in values or array[position] in array[:position]:
            del array[position]
    if list(array) != [name for name in values if name in array]:
        array.clear()
    for position, name in enumerate(values):
        if position >= len(array) or array[position] != name:
            array.insert(position, name)
