"""Translates validation errors into messages that tell a model what to write instead.

Values are shortened, and those that a schema marks as secret are not shown. The engine's own messages are not
used, because they quote whole values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

from lm_tools_bridge.protocol.input_hint import type_word
from lm_tools_bridge.text.near_names import near
from workspace_server.results import clean_text
from workspace_server.schemas.schema_limits import ANY_VALUE, resolve

MAX_VALUE = 80
"""Most characters that are shown of a value."""
_MOST_COMPARED: Final = 500
"""Names compared with a misspelt one: a caller waits for the answer, and servers may have thousands."""
# A model chooses among so many; a list of hundreds would be most of the message.
_MAX_OPTIONS = 20

_TYPE_NAMES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
    type(None): "null",
}

ValuePath = Sequence[str | int]
"""Property names and indices from the arguments to a value in them."""


def pointer(path: ValuePath) -> str:
    """`path` as a JSON pointer (RFC 6901), with long parts shortened."""
    return "".join(f"/{cut(str(part)).replace('~', '~0').replace('/', '~1')}" for part in path)


def type_name(value: object) -> str:
    """The JSON type of a decoded value."""
    return _TYPE_NAMES.get(type(value), "object")


def cut(text: str) -> str:
    """Shorten `text` to at most 80 characters; the last one is `…` if characters are left out."""
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


def shorten_value(value: object) -> str:
    """A scalar as JSON of at most 80 characters; an array or object as its type name."""
    if isinstance(value, str):
        head = value if len(value) <= MAX_VALUE - 2 else value[: MAX_VALUE - 3] + "…"
        text = json.dumps(head, ensure_ascii=False)
        return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 2] + '…"'
    if isinstance(value, (bool, float)) or value is None:
        return json.dumps(value)
    if isinstance(value, int):
        return cut(str(value)) if value.bit_length() < 10_000 else "of many digits"
    return type_name(value)


def choices(values: Sequence[object]) -> str:
    """The allowed values, of which at most 20 are shown."""
    first_values = ", ".join(shorten_value(value) for value in values[:_MAX_OPTIONS])
    return f"{first_values}, … ({len(values)} in all)" if len(values) > _MAX_OPTIONS else first_values


def value_at(root: Any, path: ValuePath) -> Any:
    """The value at `path` in decoded JSON, or None."""
    for part in path:
        try:
            root = root[part]
        except (KeyError, IndexError, TypeError):
            return None
    return root


def nearest(name: str, names: Sequence[str]) -> str | None:
    """The most similar of `names` to a misspelt `name`, or None."""

    def plain(word: str) -> str:
        return word.replace("_", "").replace("-", "").lower()

    same = next((word for word in names if plain(word) == plain(name)), None)
    close = near(name[:MAX_VALUE], names[:_MOST_COMPARED])
    return same or (close[0] if close else None)


# Alternatives (`anyOf`) that are described, and how deep: the message must stay shorter than the schema,
# which the model has.
_MAX_FORMS = 3
_MAX_NESTING = 4

_FORMAT_EXAMPLES = {
    "date": "2026-03-29",
    "date-time": "2026-03-29T02:30:00Z",
    "time": "02:30:00Z",
    "duration": "P1DT2H",
    "email": "name@example.org",
    "uri": "https://example.org/path",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.org",
}


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """One error in the arguments: a JSON pointer, the schema keyword, and what to write instead."""

    pointer: str
    keyword: str
    message: str


class ErrorTranslator:
    """Translates the engine's errors for one set of arguments.

    `hidden` names the properties whose values are not shown, see `schema_limits.SchemaSurvey`.
    """

    def __init__(self, schema: Mapping[str, Any], arguments: Mapping[str, Any], hidden: set[str]) -> None:
        self._schema = schema
        self._arguments = arguments
        self._hidden = hidden

    def problems(self, error: jsonschema_rs.ValidationError, nesting: int = 0) -> list[ArgumentProblem]:
        """The problems of one error; several if the error names several properties."""
        kind = error.kind.name
        facts = error.kind.as_dict()
        if kind in {"additionalProperties", "unevaluatedProperties"}:
            return self._unexpected(error, kind, facts["unexpected"])
        if kind == "required":
            name = facts["property"]
            return [_problem([*error.instance_path, name], kind, self._required(error, name))]
        if kind in {"anyOf", "oneOf"} and (forms := facts["context"]) and all(forms):
            return self._alternatives(error, kind, forms, nesting)
        if kind == "propertyNames":
            name = error.kind.error.instance  # type: ignore[attr-defined]  # the stub has the base class only
            return [
                _problem([*error.instance_path, name], kind, "this property name is not allowed; rename it")
            ]
        return [_problem(error.instance_path, kind, self._wrong(error))]

    def _secret(self, path: ValuePath) -> bool:
        return ANY_VALUE in self._hidden or any(part in self._hidden for part in path)

    def _got(self, path: ValuePath) -> str:
        value = value_at(self._arguments, path)
        name = type_name(value)
        if self._secret(path) or name in {"array", "object", "null"}:
            return f"got {name}"
        return f"got {name} {shorten_value(value)}"

    def _holder(self, error: jsonschema_rs.ValidationError) -> Mapping[str, Any]:
        """The schema whose keyword failed."""
        holder = value_at(self._schema, error.schema_path[:-1])
        return holder if isinstance(holder, Mapping) else {}

    def _property(self, error: jsonschema_rs.ValidationError, name: str) -> Mapping[str, Any]:
        sub = value_at(self._holder(error), ["properties", name])
        if not isinstance(sub, Mapping):
            return {}
        return resolve(self._schema, sub.get("$ref")) or sub

    def _required(self, error: jsonschema_rs.ValidationError, name: str) -> str:
        sub = self._property(error, name)
        word = type_word(sub)
        options = sub.get("enum")
        if isinstance(options, list) and options:
            return f"required (one of {choices(options)})"
        return "required" if word == "unknown" else f"required ({word})"

    def _unexpected(
        self, error: jsonschema_rs.ValidationError, kind: str, names: list[str]
    ) -> list[ArgumentProblem]:
        holder = self._holder(error)
        value = value_at(self._arguments, error.instance_path)
        declared = holder.get("properties")
        free = [key for key in declared if key not in value] if isinstance(declared, Mapping) else []
        required = holder.get("required")
        missing = [key for key in free if key in required] if isinstance(required, list) else []
        messages = []
        for name in names:
            guess = nearest(name, free)
            if (
                guess is None
                and len(missing) == len(names) == 1
                and self._could_be(error, missing[0], value[name])
            ):
                guess = missing[0]  # one unknown and one missing property: probably the same
            if guess is not None:
                hint = f"did you mean {guess}?"
            elif free and error.instance_path:
                hint = f"leave it out or use one of {cut(', '.join(free))}"
            else:
                hint = "leave it out"
            messages.append(_problem([*error.instance_path, name], kind, f"unknown property; {hint}"))
        return messages

    def _could_be(self, error: jsonschema_rs.ValidationError, name: str, value: object) -> bool:
        word = type_word(self._property(error, name))
        return type_name(value) in word.split("|") or word in {"unknown", "enum"}

    def _alternatives(
        self,
        error: jsonschema_rs.ValidationError,
        kind: str,
        forms: list[list[jsonschema_rs.ValidationError]],
        nesting: int,
    ) -> list[ArgumentProblem]:
        """The problems of the alternative that was probably meant, else what each alternative expects."""
        path = error.instance_path
        misses = [max(_distance(inner, path) for inner in form) for form in forms]
        meant = [form for form, miss in zip(forms, misses, strict=True) if miss == min(misses)]
        if min(misses) == _OTHER_TYPE:
            words = [
                word for form in meant for inner in form for word in inner.kind.as_dict().get("types", [])
            ]
            return [_problem(path, kind, f"expected {' or '.join(dict.fromkeys(words))}, {self._got(path)}")]
        if nesting >= _MAX_NESTING:
            return [_problem(path, kind, "fits none of the allowed forms")]
        if len(meant) == 1:
            return [problem for inner in meant[0] for problem in self.problems(inner, nesting + 1)]
        shortest = [self.problems(form[0], nesting + 1)[0] for form in meant[:_MAX_FORMS]]
        texts = dict.fromkeys(_relative(problem, pointer(path)) for problem in shortest)
        return [_problem(path, kind, f"fits none of the {len(forms)} allowed forms: {'; or '.join(texts)}")]

    def _wrong(self, error: jsonschema_rs.ValidationError) -> str:
        kind = error.kind.name
        facts = error.kind.as_dict()
        path = error.instance_path
        value = value_at(self._arguments, path)
        if kind == "type":
            types = sorted(facts["types"], key="null".__eq__)
            hint = "" if self._secret(path) else _retyped(types, value)
            return f"expected {' or '.join(types)}, {self._got(path)}{hint}"
        if kind == "enum":
            options = facts["options"]
            return f"expected one of {choices(options)}, {self._got(path)}{self._spelling(path, options)}"
        if kind in _LIMITS:
            return f"expected {_LIMITS[kind](next(iter(facts.values())))}, {self._got(path)}"
        if kind in _SIZES:
            least_or_most, unit = _SIZES[kind]
            size = f", got {len(value)}" if isinstance(value, (str, list, dict)) else ""
            return f"expected {least_or_most} {facts['limit']} {unit}{size}"
        return _FIXED.get(kind, f"does not fit the keyword {kind} of the schema")

    def _spelling(self, path: ValuePath, options: Sequence[object]) -> str:
        value = value_at(self._arguments, path)
        if not isinstance(value, str) or self._secret(path):
            return ""
        guess = nearest(value, [option for option in options if isinstance(option, str)])
        return "" if guess is None else f"; did you mean {shorten_value(guess)}?"


_LIMITS: dict[str, Callable[[Any], str]] = {
    "const": lambda value: (
        shorten_value(value) if type_name(value) not in {"array", "object"} else "the schema's constant"
    ),
    "minimum": lambda limit: f"at least {shorten_value(limit)}",
    "maximum": lambda limit: f"at most {shorten_value(limit)}",
    "exclusiveMinimum": lambda limit: f"more than {shorten_value(limit)}",
    "exclusiveMaximum": lambda limit: f"less than {shorten_value(limit)}",
    "multipleOf": lambda step: f"a multiple of {shorten_value(step)}",
    "pattern": lambda pattern: f"a string that matches the pattern {cut(pattern)}",
    "format": lambda name: (
        f"a {name}" + (f" such as {_FORMAT_EXAMPLES[name]}" if name in _FORMAT_EXAMPLES else "")
    ),
    "contentEncoding": lambda name: f"a string in {name} encoding",
    "contentMediaType": lambda name: f"a string of media type {name}",
}
_SIZES = {
    "minLength": ("at least", "characters"),
    "maxLength": ("at most", "characters"),
    "minItems": ("at least", "items"),
    "maxItems": ("at most", "items"),
    "minProperties": ("at least", "members"),
    "maxProperties": ("at most", "members"),
}
_FIXED = {
    "uniqueItems": "items must differ; remove the repeated ones",
    "contains": "too few or too many items of the kind the schema asks for",
    "falseSchema": "not allowed here; leave it out",
    "not": "this value is excluded by the schema; write another one or leave it out",
    "oneOf": "fits more than one of the allowed forms; write the members of one form only",
    "additionalItems": "too many items; remove those at the end",
    "unevaluatedItems": "too many items; remove those at the end",
}

# More than all other differences: a value of another type was meant for another alternative.
_OTHER_TYPE = 2


def _distance(error: jsonschema_rs.ValidationError, path: list[str | int]) -> int:
    """How far an alternative is from the value: 2 for another type, 1 for another constant, else 0."""
    kind = error.kind.name
    if error.instance_path == path and kind == "type":
        return _OTHER_TYPE
    return 1 if kind in {"const", "enum"} else 0


def _relative(problem: ArgumentProblem, base: str) -> str:
    below = problem.pointer.removeprefix(base)
    return f"{below} {problem.message}" if below else problem.message


def _retyped(types: list[str], value: object) -> str:
    """A hint how to write `value` as one of `types`, if that is obvious; else empty."""
    if isinstance(value, str):
        try:
            read = json.loads(value) if len(value) < 10_000 else None
        except (ValueError, RecursionError):
            read = None
        name = type_name(read)
        if read is not None and (name in types or (name == "integer" and "number" in types)):
            return (
                f"; write {shorten_value(read)} without quotes"
                if name not in {"array", "object"}
                else (f"; write the {name} itself, not a string of JSON")
            )
    if "array" in types and isinstance(value, (str, int, float)):
        return (
            f"; write [{shorten_value(value)}]"
            if len(shorten_value(value)) < MAX_VALUE
            else "; write an array with it"
        )
    if types == ["string"] and isinstance(value, (int, float)) and len(shorten_value(value)) < MAX_VALUE:
        return f'; write "{shorten_value(value)}"'
    return "; leave it out if it is not needed" if value is None else ""


def _problem(path: ValuePath, keyword: str, message: str) -> ArgumentProblem:
    """A problem whose message is one clean line, whatever the schema or the arguments contain."""
    return ArgumentProblem(clean_text(pointer(path)), keyword, " ".join(clean_text(message).split("\n")))
