"""Defines the value for a change that is refused. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RefusalReason = Literal[
    "unreadable",
    "read_only",
    "other_user",
    "too_large",
    "not_a_file",
    "dangling_link",
    "invalid_syntax",
    "not_an_object",
    "not_ours",
    "not_configured",
    "unsupported_form",
    "changed_meanwhile",
    "no_undo",
    "changed_since",
    "write_failed",
    "link",
    "same_file",
]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file is left as it is: a word for programs, a sentence, the next step, and the line if known."""

    reason: RefusalReason
    message: str
    next_step: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class FormProblem:
    """A text that is valid, but cannot be changed as wanted; `reason` as in `Refusal`."""

    reason: Literal["not_an_object", "unsupported_form"]
    text: str
