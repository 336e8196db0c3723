"""Parses the YAML front matter of a `SKILL.md` into JSON values (YAML 1.2, core schema). Pure.

Only what JSON can express is accepted: no aliases, which could grow without limit, no tags, and only texts as
keys. A date is a text. So every client that compares the front matter with the file sees the same values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from yaml.events import Event, ScalarEvent

MAX_BYTES: Final = 16 * 1024
"""Size of a front matter. No larger one is parsed."""
# Characters of a name and a description: the limits of the Agent Skills specification.
MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1024
# Nesting is parsed by recursion, which must end before Python's own limit.
_MAX_DEPTH: Final = 16
_MAX_INT: Final = 1 << 63
_MAX_SHOWN: Final = 60
_FENCE: Final = re.compile(rb"---[ \t]*(?:\r\n|\n|\Z)")
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_STRING_TAG: Final = "tag:yaml.org,2002:str"
_INT: Final = re.compile(r"[-+]?[0-9]{1,20}|0o[0-7]{1,22}|0x[0-9a-fA-F]{1,16}")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class InvalidFrontMatter(Exception):
    """The front matter cannot be used. `line` is the line of the file, counted from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


def parse(content: bytes, folder_name: str) -> dict[str, Any]:
    """The front matter of a `SKILL.md` in a folder of this name.

    Raises:
        InvalidFrontMatter: there is none, it is no valid YAML, or it breaks a rule of the Agent Skills
            specification.
    """
    text = _front_matter(content)
    mapping = _Reader(text).mapping()
    lines = mapping.lines
    name = mapping.values.get("name")
    if "name" not in mapping.values:
        raise InvalidFrontMatter(1, "the front matter has no name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        rule = f"name must consist of at most {MAX_NAME} lower case letters, digits and single hyphens"
        raise InvalidFrontMatter(lines["name"], rule)
    if name != folder_name:
        raise InvalidFrontMatter(lines["name"], f"name must be the name of its folder, not {name}")
    description = mapping.values.get("description")
    if "description" not in mapping.values:
        raise InvalidFrontMatter(1, "the front matter has no description")
    if not isinstance(description, str) or not description.strip() or len(description) > MAX_DESCRIPTION:
        rule = f"description must be a text of 1 to {MAX_DESCRIPTION} characters"
        raise InvalidFrontMatter(lines["description"], rule)
    return mapping.values


def _front_matter(content: bytes) -> str:
    """The YAML between the two `---`, with empty lines in place of what is before it."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    first = _FENCE.match(content)
    if first is None:
        raise InvalidFrontMatter(1, "the file must begin with --- and YAML front matter")
    end = first.end()
    while True:
        following = content.find(b"\n", end, MAX_BYTES)
        line = content[end : MAX_BYTES if following < 0 else following + 1]
        if _FENCE.fullmatch(line):
            break
        if following < 0:
            at = content.count(b"\n", 0, end) + 1
            raise InvalidFrontMatter(at, f"the front matter has no end (---) within {MAX_BYTES >> 10} KiB")
        end = following + 1
    try:
        return "\n" + content[first.end() : end].decode()
    except UnicodeDecodeError as error:
        at = content.count(b"\n", 0, first.end() + error.start) + 1
        raise InvalidFrontMatter(at, "the front matter is not UTF-8") from None


class _Mapping:
    """A mapping, with the line of each of its keys."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.lines: dict[str, int] = {}


class _Reader:
    """Builds JSON values from the events of a YAML parser."""

    def __init__(self, text: str) -> None:
        self._events = _events(text)

    def mapping(self) -> _Mapping:
        """The only document, which has to be a mapping."""
        import yaml  # few workspaces have skills

        event = self._next()
        while isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
            event = self._next()
        if not isinstance(event, yaml.MappingStartEvent):
            raise InvalidFrontMatter(2, "the front matter must be a mapping (name: …)")
        mapping = self._mapping(event, 0)
        for rest in self._events:
            if not isinstance(rest, yaml.DocumentEndEvent | yaml.StreamEndEvent):
                raise InvalidFrontMatter(_line(rest), "the front matter has more than one document")
        return mapping

    def _next(self) -> Event:
        return next(self._events)

    def _value(self, event: Event, depth: int) -> Any:
        import yaml

        if depth > _MAX_DEPTH:
            raise InvalidFrontMatter(_line(event), f"values are nested more than {_MAX_DEPTH} levels deep")
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if isinstance(event, yaml.AliasEvent):
            raise InvalidFrontMatter(_line(event), "aliases (*name) are not supported")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(event, depth).values
        _refuse_tag(event)
        values = []
        while not isinstance(following := self._next(), yaml.SequenceEndEvent):
            values.append(self._value(following, depth + 1))
        return values

    def _mapping(self, event: Event, depth: int) -> _Mapping:
        import yaml

        _refuse_tag(event)
        mapping = _Mapping()
        while not isinstance(following := self._next(), yaml.MappingEndEvent):
            line = _line(following)
            if not isinstance(following, yaml.ScalarEvent):
                raise InvalidFrontMatter(line, "a key must be a text")
            key = _encodable(following)
            if key in mapping.values:
                raise InvalidFrontMatter(line, f"the key {_quoted_text(key)} is there twice")
            mapping.values[key] = self._value(self._next(), depth + 1)
            mapping.lines[key] = line
        return mapping


def _events(text: str) -> Iterator[Event]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        reason = _quoted_text(error.problem or "it cannot be parsed")
        raise InvalidFrontMatter(line, f"the front matter is not valid YAML: {reason}") from None
    except yaml.YAMLError:
        reason = "it contains a character that YAML does not allow"
        raise InvalidFrontMatter(1, f"the front matter is not valid YAML: {reason}") from None


def _scalar(event: ScalarEvent) -> Any:
    text = _encodable(event)
    if event.tag == _STRING_TAG or (event.tag in (None, "!") and not event.implicit[0]):
        return text
    _refuse_tag(event)
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        value = int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        if not -_MAX_INT <= value < _MAX_INT:
            raise InvalidFrontMatter(
                _line(event), f"the number {_quoted_text(text)} is too large; put it in quotes"
            )
        return value
    if _NOT_FINITE.fullmatch(text):
        raise InvalidFrontMatter(_line(event), f"JSON has no number {text}; put it in quotes")
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise InvalidFrontMatter(
                _line(event), f"the number {_quoted_text(text)} is too large; put it in quotes"
            )
        return number
    return text


def _encodable(event: ScalarEvent) -> str:
    """The text of a scalar, which must not contain halves of characters."""
    try:
        event.value.encode()
    except UnicodeEncodeError:
        raise InvalidFrontMatter(_line(event), "a text contains an incomplete character") from None
    return str(event.value)


def _refuse_tag(event: Any) -> None:
    if event.tag not in (None, "!") and event.tag != _STRING_TAG:
        raise InvalidFrontMatter(_line(event), "tags (!name) are not supported")


def _line(event: Event) -> int:
    mark = event.start_mark
    return 1 if mark is None else int(mark.line) + 1


def _quoted_text(text: str) -> str:
    printable = "".join(character if character.isprintable() else "�" for character in text)
    return printable if len(printable) <= _MAX_SHOWN else printable[: _MAX_SHOWN - 1] + "…"
