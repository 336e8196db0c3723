"""Reads and prints the servers of a YAML file, which has them as a list of objects with names. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from manager.client_files.refusals import FormProblem, SyntaxProblem

Problem = SyntaxProblem | FormProblem


def value_at(text: str, path: Sequence[str]) -> Any | Problem:
    """The value at a path of names; None if it is missing. Objects of a list are named by their `name`."""
    import yaml

    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        return SyntaxProblem(line, str(getattr(error, "problem", None) or error))
    for depth, key in enumerate(path):
        if value is None:
            return None
        if not isinstance(value, dict):
            return FormProblem("not_an_object", f"{'.'.join(path[:depth]) or 'the file'} is not an object")
        value = _named(value.get(key))
    return value


def text_of(container: str, name: str, entry: Mapping[str, Any]) -> str:
    """A list with one server, as it stands in a file."""
    import yaml

    listed = {container: [{"name": name, **entry}]}
    return yaml.safe_dump(listed, sort_keys=False, allow_unicode=True).rstrip()


def _named(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    objects = (item for item in value if isinstance(item, dict) and isinstance(item.get("name"), str))
    return {item["name"]: {key: one for key, one in item.items() if key != "name"} for item in objects}
