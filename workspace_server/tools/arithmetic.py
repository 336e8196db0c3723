"""Arithmetic on finite real numbers: a text becomes steps, the steps a number.

A grammar of its own, not Python's: no text reaches `eval`, `compile` or `ast`, and every operation that could
grow is bounded before it is computed. The tool around it is `calculator.py`. Source: T-131, T-132.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

MAX_LENGTH = 1_000
_MAX_NESTING = 50
_MAX_BITS = 10_000  # about 3 000 digits: below the interpreter's own limit for writing integers out
_MAX_DECIMALS = 308

Number = int | float


class Refused(Exception):
    """Why an expression has no value, in words for the one who wrote it."""


_TOKEN = re.compile(
    r"[ \t\r\n]*((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[A-Za-z_][A-Za-z0-9_]*|\*\*|//|[-+*/%(),]|\Z|.)",
    re.DOTALL,
)
_STRANGE = re.compile(r"[^ \t\r\n0-9A-Za-z_.+*/%(),-]")
_NUMBERS_BEGIN = frozenset("0123456789.")
_OPERATORS = frozenset({"**", "//", "-", "+", "*", "/", "%", "(", ")", ","})
_HINTS = {
    "^": "; write ** for a power",
    "×": "; write *",
    "·": "; write *",
    "÷": "; write /",
    "−": "; write -",
    "√": "; write sqrt(…)",
    "π": "; write pi",
    "!": "; factorials are not supported",
    "=": "; write only the side to be computed",
    "'": "; only numbers can be computed",
    '"': "; only numbers can be computed",
    "[": "; write ( )",
    "{": "; write ( )",
}
# (token, whether a value stands before it): what to write instead
_TOKEN_HINTS = {
    (",", True): "; write decimals with a point and no thousands separator",
    ("+", False): "; only - may stand before a number",
    (")", True): "; no parenthesis is open there",
}


def _tokens(expression: str) -> list[str]:
    """Its tokens; the end is an empty one. Where one stands says `_position`."""
    tokens: list[str] = _TOKEN.findall(expression)
    if _STRANGE.search(expression) or "." in tokens:
        index = next(at for at, text in enumerate(tokens) if text == "." or _STRANGE.match(text))
        char = tokens[index]
        at = _position(expression, index)
        raise Refused(f"Unexpected character {char!r} at position {at}{_HINTS.get(char, '')}")
    return tokens


def _position(expression: str, index: int) -> int:
    """Where a token stands: 1-based, in characters."""
    return next(islice(_TOKEN.finditer(expression), index, None)).start(1) + 1


def _bounded(value: Number | complex) -> Number:
    """`value`, if it is a finite real number of a bounded size; OverflowError if it is too large."""
    if isinstance(value, complex):
        raise ValueError
    if isinstance(value, int):
        too_large = value.bit_length() > _MAX_BITS
    elif math.isnan(value):
        raise ValueError
    else:
        too_large = math.isinf(value)
    if too_large:
        raise OverflowError
    return value


def _multiply(left: Number, right: Number) -> Number:
    return left * right


def _divide(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int) and right != 0 and left % right == 0:
        return left // right  # exact, where a double would round
    return left / right


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and exponent > 0:
        smallest = (abs(base).bit_length() - 1) * exponent  # bits of the result, at least
        if smallest > _MAX_BITS:
            raise OverflowError
    value: Number = base**exponent
    return value


def _round(value: Number, decimals: Number = 0) -> Number:
    if not isinstance(decimals, int) or abs(decimals) > _MAX_DECIMALS:
        raise Refused(f"round takes a whole number of decimals between -{_MAX_DECIMALS} and {_MAX_DECIMALS}")
    return round(value, decimals)


_BINARY: dict[str, tuple[int, Callable[[Number, Number], Number]]] = {
    "+": (1, operator.add),
    "-": (1, operator.sub),
    "*": (2, _multiply),
    "/": (2, _divide),
    "//": (2, operator.floordiv),
    "%": (2, operator.mod),
    "**": (4, _power),
}
_NEGATION = 3  # weaker than a power: -2**2 is -4

_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
# name: (least, most arguments, function)
_FUNCTIONS: dict[str, tuple[int, int, Callable[..., Number]]] = {
    "sqrt": (1, 1, math.sqrt),
    "abs": (1, 1, abs),
    "round": (1, 2, _round),
    "min": (1, MAX_LENGTH, lambda *values: min(values)),
    "max": (1, MAX_LENGTH, lambda *values: max(values)),
    "floor": (1, 1, math.floor),
    "ceil": (1, 1, math.ceil),
    "log": (1, 2, math.log),
    "log2": (1, 1, math.log2),
    "log10": (1, 1, math.log10),
    "exp": (1, 1, math.exp),
    "sin": (1, 1, math.sin),
    "cos": (1, 1, math.cos),
    "tan": (1, 1, math.tan),
    "asin": (1, 1, math.asin),
    "acos": (1, 1, math.acos),
    "atan": (1, 1, math.atan),
}
_NAMES = (*_CONSTANTS, *_FUNCTIONS)


class _Operation(NamedTuple):
    """One step of a parsed expression: takes `arity` values off the stack and puts one on it.

    `sign` is the index of the token it is written with.
    """

    apply: Callable[..., Number]
    arity: int
    sign: int


class _Parser:
    """Precedence climbing over the tokens of one expression, giving its steps in postfix order.

    Nothing is computed here, so a mistake in the text is reported before one in the arithmetic.
    """

    def __init__(self, expression: str, tokens: list[str]) -> None:
        self._text = expression
        self._tokens = tokens
        self._next = 0
        self._token = tokens[0]
        self._nesting = 0
        self.steps: list[Number | _Operation] = []

    def read(self) -> list[Number | _Operation]:
        self._expression(0)
        if self._token:
            raise self._unexpected()
        return self.steps

    def _advance(self) -> None:
        self._next += 1
        self._token = self._tokens[self._next]

    def _accept(self, text: str) -> bool:
        if self._token != text:
            return False
        self._advance()
        return True

    def _place(self, index: int) -> int:
        return _position(self._text, index)

    def _unexpected(self) -> Refused:
        text, index = self._token, self._next
        if not text:
            return Refused("Expression is incomplete")
        before = self._tokens[index - 1] if index else "("
        follows_value = before not in _OPERATORS or before == ")"
        hint = _TOKEN_HINTS.get((text, follows_value), "")
        if text.startswith("_"):
            hint = _TOKEN_HINTS[",", True]
        elif follows_value and (text not in _OPERATORS or text == "("):
            hint = "; an operator is missing before it"
        return Refused(f"Unexpected '{text}' at position {self._place(index)}{hint}")

    def _expression(self, weakest: int) -> None:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            position = self._place(self._next)
            raise Refused(f"Expression is nested too deeply at position {position}; split it into steps")
        self._operand()
        while (rule := _BINARY.get(self._token)) is not None and rule[0] >= weakest:
            sign = self._next
            self._advance()
            strength, apply = rule
            # A power binds to the right, and its exponent may carry a minus.
            self._expression(_NEGATION if apply is _power else strength + 1)
            self.steps.append(_Operation(apply, 2, sign))
        self._nesting -= 1

    def _operand(self) -> None:
        token, index = self._token, self._next
        if token[:1] in _NUMBERS_BEGIN:
            self._advance()
            self.steps.append(int(token) if token.isdigit() else self._decimal(token, index))
        elif self._accept("-"):
            self._expression(_NEGATION)
            self.steps.append(_Operation(operator.neg, 1, index))
        elif self._accept("("):
            self._expression(0)
            self._close()
        elif not token or token in _OPERATORS:
            raise self._unexpected()
        else:
            self._advance()
            self._name(token, index)

    def _close(self) -> None:
        if not self._accept(")"):
            raise self._unexpected()

    def _name(self, name: str, index: int) -> None:
        if name in _CONSTANTS:
            self.steps.append(_CONSTANTS[name])
            return
        if name not in _FUNCTIONS:
            close = difflib.get_close_matches(name.lower(), _NAMES, n=1)
            guess = f" did you mean {close[0]}?" if close else ""
            at = self._place(index)
            raise Refused(
                f"Unknown name '{cut(name)}' at position {at};{guess} known are {', '.join(_NAMES)}"
            )
        if not self._accept("("):
            raise Refused(f"'{name}' at position {self._place(index)} is a function; write {name}(…)")
        given = self._arguments()
        least, most, function = _FUNCTIONS[name]
        if not least <= given <= most:
            wanted = (
                str(least) if least == most else f"{least} or {most}" if most == 2 else f"at least {least}"
            )
            at = self._place(index)
            raise Refused(f"{name} at position {at} takes {wanted} argument(s), got {given}")
        self.steps.append(_Operation(function, given, index))

    def _arguments(self) -> int:
        if self._accept(")"):
            return 0
        self._expression(0)
        given = 1
        while self._accept(","):
            self._expression(0)
            given += 1
        self._close()
        return given

    def _decimal(self, token: str, index: int) -> float:
        value = float(token)
        if math.isinf(value):
            raise Refused(f"Number is too large at position {self._place(index)}")
        return value


def _run(expression: str, tokens: list[str], steps: list[Number | _Operation]) -> Number:
    stack: list[Number] = []
    for step in steps:
        if not isinstance(step, _Operation):
            stack.append(step)
            continue
        values = stack[-step.arity :]
        del stack[-step.arity :]
        try:
            stack.append(_bounded(step.apply(*values)))
        except ZeroDivisionError as error:
            raise Refused("Division by zero") from error
        except OverflowError as error:
            at = _position(expression, step.sign)
            raise Refused(f"Result is too large at position {at}") from error
        except ValueError as error:
            given = cut(", ".join(number_text(value) for value in values))
            where = f"'{tokens[step.sign]}' at position {_position(expression, step.sign)}"
            raise Refused(f"Result of {where} is not a real number for {given}") from error
    return stack[0]


def evaluate(expression: str) -> Number:
    """The value of `expression`.

    Raises:
        Refused: the text is outside the grammar or has no bounded real value.
    """
    if len(expression) > MAX_LENGTH:
        raise Refused(
            f"Expression has {len(expression)} characters, {MAX_LENGTH} are allowed; split it into steps"
        )
    if not expression.strip():
        raise Refused("Expression is empty; write one such as 2 + 2")
    tokens = _tokens(expression)
    return _run(expression, tokens, _Parser(expression, tokens).read())


def number_text(value: Number) -> str:
    """Integers exactly, other numbers to 15 significant digits."""
    return str(value) if isinstance(value, int) else format(value, ".15g")


def cut(text: str, limit: int = 80) -> str:
    """`text` in at most `limit` characters, the last of them an ellipsis where some are left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
