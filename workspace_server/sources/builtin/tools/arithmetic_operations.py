"""What the operators, functions and constants of an expression compute, over finite real numbers.

Every operation whose result could grow is bounded before it is computed. `arithmetic.py` reads expressions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

MAX_LENGTH = 1_000
"""Most characters of an expression, and therefore most arguments of a function."""
_MAX_BITS = 10_000  # about 3 000 digits: below the interpreter's own limit for writing integers out
_MAX_DECIMALS = 308

Number = int | float


class InvalidExpression(Exception):
    """The expression has no value; the text tells its author why."""


def checked(value: Number | complex) -> Number:
    """Return `value` if it is a finite real number of limited size.

    Raises:
        OverflowError: the number is too large.
        ValueError: the result is not a real number.
    """
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise OverflowError if math.isinf(value) else ValueError
    if isinstance(value, int):
        if value.bit_length() <= _MAX_BITS:
            return value
        raise OverflowError
    raise ValueError


def _divide(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int) and right != 0 and left % right == 0:
        return left // right  # exact, where a double would round
    return left / right


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and exponent > 0:
        smallest = (abs(base).bit_length() - 1) * exponent  # lower bound for the bits of the result
        if smallest > _MAX_BITS:
            raise OverflowError
    value: Number = base**exponent
    return value


def _round(value: Number, decimals: Number = 0) -> Number:
    if not isinstance(decimals, int) or abs(decimals) > _MAX_DECIMALS:
        raise InvalidExpression(
            f"round takes a whole number of decimals between -{_MAX_DECIMALS} and {_MAX_DECIMALS}"
        )
    return round(value, decimals)


NEGATION = 3  # weaker than a power: -2**2 is -4
# operator: (precedence, lowest precedence of an operator that binds tighter on its right side, function)
BINARY: dict[str, tuple[int, int, Callable[[Number, Number], Number]]] = {
    "+": (1, 2, operator.add),
    "-": (1, 2, operator.sub),
    "*": (2, 3, operator.mul),
    "/": (2, 3, _divide),
    "//": (2, 3, operator.floordiv),
    "%": (2, 3, operator.mod),
    "**": (4, NEGATION, _power),  # right-associative, and its exponent may have a minus
}

CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
# name: (minimum and maximum number of arguments, function)
FUNCTIONS: dict[str, tuple[int, int, Callable[..., Number]]] = {
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
