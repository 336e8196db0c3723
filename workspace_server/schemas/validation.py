"""Validates arguments against a tool's input schema, before the tool is called.

It uses no network and no remote references, and limits the work of a check. `schema_limits.py` examines
schemas, `argument_messages.py` words the errors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import msgspec

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import Reason
from lm_tools_bridge.protocol.input_hint import shape
from workspace_server.results import failure, well_formed
from workspace_server.schemas.argument_messages import ArgumentProblem, ErrorTranslator, pointer
from workspace_server.schemas.dialects import Dialect, dialect_of
from workspace_server.schemas.ecma_patterns import is_pattern
from workspace_server.schemas.schema_limits import (
    MAX_EVALUATIONS,
    MAX_PATTERNS,
    EvaluationCost,
    survey_schema,
)
from workspace_server.tool import Tool, ToolResult

__all__ = ["ArgumentProblem", "Validator", "invalid_arguments_result", "validator_for"]

# A model corrects them all at once; the next call shows the rest.
MAX_PROBLEMS = 10
# Far below the depth at which the engine, which is recursive, would end the process.
_MAX_DEPTH = 100
_MAX_LISTED = 5_000  # evaluations; above this, listing all errors takes too long
_MAX_LISTED_BYTES = 200_000
_CACHED = 2_048
MAX_PATTERN_CHARACTERS = 4_000  # of all patterns of a schema; compiling them takes up to 1.2 s

_OPTIONS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=1_000_000)
_OVER_BUDGET = (
    jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded,
    jsonschema_rs.ValidationErrorKind.RegexEngineFailure,
)
_NESTED = (dict, list, tuple)
_UNKNOWN = {"additionalProperties", "unevaluatedProperties"}


class Validator:
    """One compiled input schema, of the dialect that it declares.

    `unchecked` is None, or the reason why arguments are passed on without a check (issue
    `TOOL_SCHEMA_UNCHECKED`).

    Raises:
        ValueError: the schema cannot be used; the message says why, for a person.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        survey = survey_schema(schema)
        if survey.problem is not None:
            raise ValueError(survey.problem)
        self._schema = schema
        self._hidden = survey.hidden
        self.unchecked: str | None = survey.too_large
        self._engine: jsonschema_rs.Validator | None = None
        if survey.too_large is not None:
            return
        self._cost = EvaluationCost(survey)
        self._most_members = self._cost.most_members()
        dialect = dialect_of(schema)
        if dialect is None:
            self.unchecked = "nobody here knows the dialect that it declares"
        elif self._cost.always_too_much:
            self.unchecked = "checking could take too long: its subschemas multiply"
        elif len(survey.patterns) > MAX_PATTERNS:
            self.unchecked = f"more than {MAX_PATTERNS} patterns"
        elif sum(map(len, survey.patterns)) > MAX_PATTERN_CHARACTERS:
            self.unchecked = f"patterns of more than {MAX_PATTERN_CHARACTERS} characters"
        else:
            self._compile(dialect, survey.patterns)

    def _compile(self, dialect: Dialect, patterns: Sequence[str]) -> None:
        try:
            self._engine = dialect.engine(dict(self._schema), offline=True, pattern_options=_OPTIONS)
        except jsonschema_rs.ValidationError as error:
            where = pointer(error.instance_path)
            if error.instance in patterns:
                if _is_readable(str(error.instance)):
                    self.unchecked = f"the pattern at {where} is beyond what a check understands or may cost"
                    return
                raise ValueError(f"the pattern at {where} is not a regular expression") from error
            raise ValueError(f"not a valid schema at {where or 'its root'}: {error.kind.name}") from error
        except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
            raise ValueError(f"not a valid schema: {error}") from error

    def check(self, arguments: Mapping[str, Any] | None) -> list[ArgumentProblem]:
        """The problems of `arguments` (None: `{}`), at most ten, missing properties first. Never raises.

        Empty if the arguments are valid, or if the check would take too long.
        """
        decoded = arguments if isinstance(arguments, dict) else dict(arguments or {})
        if self._is_valid_and_flat(decoded):
            return []
        measured = _measure(decoded)
        if isinstance(measured, ArgumentProblem):
            return [measured]
        if self._engine is None:
            return []
        values_per_level, size = measured
        evaluations = self._cost.evaluations(values_per_level)
        if evaluations > MAX_EVALUATIONS:
            return []
        try:
            if self._engine.is_valid(decoded):
                return []
            small = evaluations <= _MAX_LISTED and size <= _MAX_LISTED_BYTES
            errors = list(self._engine.iter_errors(decoded)) if small else _first_error(self._engine, decoded)
        except (ValueError, RecursionError, OverflowError, TypeError):
            return [ArgumentProblem("", "type", "the arguments are not JSON; write plain JSON values")]
        wording = ErrorTranslator(self._schema, decoded, self._hidden)
        problems = [
            problem
            for error in errors
            if not isinstance(error.kind, _OVER_BUDGET)
            for problem in wording.problems(error)
        ]
        return sorted(dict.fromkeys(problems), key=_rank)[:MAX_PROBLEMS]

    def _is_valid_and_flat(self, arguments: dict[str, Any]) -> bool:
        """Fast path: whether an object of few scalars is valid; False if that needs the full check."""
        if self._engine is None or len(arguments) > self._most_members:
            return False
        for value in arguments.values():
            if isinstance(value, _NESTED):
                return False
        try:
            return self._engine.is_valid(arguments)
        except (ValueError, RecursionError, OverflowError, TypeError):
            return False


def _is_readable(pattern: str) -> bool:
    return is_pattern(pattern, unicode=True) or is_pattern(pattern, unicode=False)


def _first_error(
    engine: jsonschema_rs.Validator, arguments: dict[str, Any]
) -> list[jsonschema_rs.ValidationError]:
    try:
        engine.validate(arguments)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


def _rank(problem: ArgumentProblem) -> int:
    """The order in which problems are best corrected: missing, wrong, unknown properties."""
    if problem.keyword == "required":
        return 0
    return 2 if problem.keyword in _UNKNOWN else 1


def _measure(arguments: dict[str, Any]) -> tuple[list[int], int] | ArgumentProblem:
    """(number of values at each depth, size as JSON in bytes), or why `given` is not JSON."""
    counts = [1]
    level: list[dict[str, Any] | list[Any] | tuple[Any, ...]] = [arguments]
    while level:
        if len(counts) > _MAX_DEPTH:
            return ArgumentProblem(
                "", "type", f"nested deeper than {_MAX_DEPTH} levels; write the arguments flatter"
            )
        counts.append(sum(map(len, level)))
        level = [
            item
            for holder in level
            for item in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(item, (dict, list, tuple))
        ]
    try:
        return counts, len(msgspec.json.encode(arguments))
    except UnicodeEncodeError:
        hint = "a string contains half of a surrogate pair; write the whole character or leave it out"
        return ArgumentProblem(pointer(_path_of_surrogate(arguments) or ()), "type", hint)
    except (ValueError, TypeError, OverflowError):
        return counts, _MAX_LISTED_BYTES


def _path_of_surrogate(value: object) -> tuple[str | int, ...] | None:
    """The path of a string with a lone surrogate, or None; `value` has limited depth."""
    if isinstance(value, str):
        return None if well_formed(value) == value else ()
    if isinstance(value, dict):
        members: list[tuple[str | int, Any]] = list(value.items())
    elif isinstance(value, (list, tuple)):
        members = list(enumerate(value))
    else:
        return None
    for key, item in members:
        if isinstance(key, str) and well_formed(key) != key:
            return ()
        if (below := _path_of_surrogate(item)) is not None:
            return (key, *below)
    return None


_cache: OrderedDict[bytes, Validator | str] = OrderedDict()


def _compiled(schema: Mapping[str, Any]) -> Validator | str:
    """The validator of `schema`, or the error text; cached by the hash of the canonical JSON."""
    try:
        key = sha256(msgspec.json.encode(schema, order="sorted")).digest()
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        return f"not JSON: {error}"
    entry = _cache.pop(key, None)
    if entry is None:
        try:
            entry = Validator(schema)
        except ValueError as error:
            entry = str(error)
    _cache[key] = entry
    if len(_cache) > _CACHED:
        _cache.popitem(last=False)
    return entry


def validator_for(schema: Mapping[str, Any]) -> Validator:
    """The cached validator of `schema`.

    Raises:
        ValueError: as `Validator`.
    """
    compiled = _compiled(schema)
    if isinstance(compiled, str):
        raise ValueError(compiled)
    return compiled


def invalid_arguments_result(tool: Tool, problems: Sequence[ArgumentProblem]) -> ToolResult:
    """The tool result for invalid arguments, from which a model can correct its call.

    The error object is in `structuredContent`, or in `_meta` for a tool with an `outputSchema`.
    """
    message = f"invalid arguments for {tool.name}"
    uri = names.URI_SCHEMA + quote(tool.name, safe="")
    next_step = f"correct the arguments and call {tool.name} again; its whole schema is the resource {uri}"
    lines = [f"Error: {message}"]
    lines += [f"{problem.pointer or 'arguments'}: {problem.message}" for problem in problems[:MAX_PROBLEMS]]
    line = shape(tool.input_schema)
    if line is None and tool.input_schema.get("additionalProperties") is False:
        line = "Input: {}"
    lines += [line] if line is not None else []
    lines.append(f"Next step: {next_step}")
    errors = [
        {"pointer": problem.pointer, "keyword": problem.keyword, "message": problem.message}
        for problem in problems[:MAX_PROBLEMS]
    ]
    body = {
        "ok": False,
        "error": {
            "code": Reason.INVALID_ARGUMENTS.code,
            "reason": Reason.INVALID_ARGUMENTS.word,
            "message": message,
            "nextStep": next_step,
            "details": {"errors": errors},
        },
        "name": tool.name,
        "inputSchema": tool.input_schema,
    }
    return failure(tool, "\n".join(lines), body)
