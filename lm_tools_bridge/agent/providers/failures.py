"""Words the failures of a provider: what happened, and what a person can do about it. Pure.

What a server says is quoted masked and shortened; for a refused key not at all, because some quote the key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Final

from lm_tools_bridge.agent.messages import ProviderFailure
from lm_tools_bridge.text.printable import printable
from lm_tools_bridge.text.redaction import HIDDEN

RETRYABLE: Final = frozenset({429, 500, 502, 503, 504, 520, 522, 524, 529})
LONGEST_WAIT_S: Final = 60.0
"""The longest `Retry-After` that is waited for."""
_QUOTED: Final = 300  # characters of a provider's own words: a sentence or two
_SHORTEST_KEY: Final = 8
"""A shorter key could be a common word, whose beginning would hide ordinary text."""
_NO_CREDIT: Final = ("insufficient_quota", "billing_not_active")
_WRONG_KEY: Final = "API_KEY_INVALID"
"""Gemini answers 400 to a wrong key."""


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one provider.

    Attributes:
        provider: its name.
        kind: its dialect.
        base: its address.
        model: the model that was asked.
        key_hint: where its key can be put.
        key: its key, which no text shows.
    """

    provider: str
    kind: str
    base: str
    model: str
    key_hint: str
    key: str | None = field(default=None, repr=False)

    def of(self, cause: str, next_step: str) -> ProviderFailure:
        """A failure with these words, each on one line and without the key."""
        return ProviderFailure(self.provider, self._clean(cause), self._clean(next_step))

    def missing_key(self, details: str = "") -> ProviderFailure:
        """There is no key for a provider that needs one."""
        return self.of(f"there is no key{f' ({details})' if details else ''}", self.key_hint)

    def bad_key(self, source: str) -> ProviderFailure:
        """The key cannot be sent."""
        return self.of(f"the key from {source} holds characters that no key has", self.key_hint)

    def refused(self) -> ProviderFailure:
        """Nothing listens at the address."""
        start = (
            "start it with: ollama serve (to install it: https://ollama.com/download)"
            if self.kind == "ollama"
            else "start the server"
        )
        step = f"{start}; or correct {self._base_setting}; or use another model server with --provider"
        return self.of(f"nothing listens at {self.base}", step)

    def unreachable(self, reason: str) -> ProviderFailure:
        """The connection failed in another way."""
        return self.of(
            f"{self.base} cannot be reached: {reason}", f"check the network, and {self._base_setting}"
        )

    def connect_late(self, seconds: float) -> ProviderFailure:
        """The connection took too long."""
        step = f"check the network, and {self._base_setting}; or raise connect_s"
        return self.of(f"no connection to {self.base} within {seconds:g} s", step)

    def first_byte_late(self, seconds: float) -> ProviderFailure:
        """No reply began in time."""
        step = "try again, a large model may still be loading; or raise first_byte_s"
        return self.of(f"no reply began within {seconds:g} s", step)

    def answer_late(self, seconds: float) -> ProviderFailure:
        """The reply was not complete in time."""
        step = "ask for less, choose a faster model, or raise answer_s"
        return self.of(f"the reply was not complete after {seconds:g} s", step)

    def cut(self) -> ProviderFailure:
        """The connection ended before the reply."""
        return self.of("the reply was cut off", "try again; if it happens again, look into the server's log")

    def unusable(self, cause: str) -> ProviderFailure:
        """The reply is not one of the dialect, or tells an error."""
        return self.of(cause, f"try again; if it happens again, check {self._base_setting}")

    def page(self) -> ProviderFailure:
        """A page for a browser came in the place of a reply."""
        return self.of(f"{self.base} answered with a web page", f"correct {self._base_setting}")

    def moved(self, status: int) -> ProviderFailure:
        """The server points to another address; the key is not sent there."""
        return self.of(f"{self.base} redirects elsewhere ({status})", f"correct {self._base_setting}")

    def status(self, status: int, body: bytes, wait_s: float | None = None) -> ProviderFailure:
        """The server answered with an error."""
        reason = error_reason(body)
        if status == 401 or _WRONG_KEY in reason or (status == 400 and "API key not valid" in reason):
            return self.of(f"the key was refused ({status})", self.key_hint)
        status_text = f"{status}: {reason}" if reason else f"{status}"
        if status == 403:
            return self.of(f"the access was refused ({status_text})", self.key_hint)
        if status == 404:
            return self.of(f"model {self.model} was not found ({status_text})", self._find_model)
        if status == 429:
            wait = f"wait {wait_s:g} s, then try again" if wait_s else "wait, then try again"
            step = "check the account with the provider" if out_of_credit(body) else wait
            return self.of(f"too many requests ({status_text})", step)
        if status >= 500:
            return self.of(
                f"the server failed ({status_text})", "try again later, or look into the server's log"
            )
        return self.of(
            f"the request was refused ({status_text})", "choose another model, or start afresh with /clear"
        )

    @property
    def _base_setting(self) -> str:
        return f"api_base of [agent.providers.{self.provider}]"

    @property
    def _find_model(self) -> str:
        if self.kind == "ollama":
            return f"fetch it with: ollama pull {self.model}; or choose another model"
        return f"choose a model that the provider has, or correct {self._base_setting}"

    def _clean(self, text: str) -> str:
        return printable(" ".join(mask_key(text, self.key).split()), width=2 * _QUOTED)


def mask_key(text: str, key: str | None) -> str:
    """The text without the key, and without any word that begins like it: servers quote keys in part."""
    if not key:
        return text
    text = text.replace(key, HIDDEN)
    if len(key) < _SHORTEST_KEY:
        return text
    return re.sub(re.escape(key[: _SHORTEST_KEY - 2]) + r"\S*", HIDDEN, text)


def error_reason(body: bytes) -> str:
    """What the body of an error says, in at most 300 characters; empty if it is a page for a browser."""
    content = _json(body)
    if content is None:
        text = body.decode(errors="replace").strip()
        return "" if text.startswith("<") else text[:_QUOTED]
    error = content.get("error", content) if isinstance(content, dict) else content
    if isinstance(error, dict):
        message = error.get("message") or error.get("detail") or error.get("type") or ""
        error = message if isinstance(message, str) else json.dumps(message)
    return str(error)[:_QUOTED]


def out_of_credit(body: bytes) -> bool:
    """Whether a refusal stays, because the account has nothing left."""
    content = _json(body)
    error = content.get("error") if isinstance(content, dict) else None
    return isinstance(error, dict) and bool({error.get("code"), error.get("type")} & set(_NO_CREDIT))


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a server asks to wait (RFC 9110 §10.2.3), None if it does not say.

    Args:
        headers: the headers of its answer, found in any case.
        now: the time in seconds since 1970.
    """
    value = headers.get("Retry-After", "").strip()
    try:
        if value.replace(".", "", 1).isdecimal():
            return float(value)
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)  # noqa: UP017  as in RFC 9110
    return max(0.0, (moment - datetime.fromtimestamp(now, moment.tzinfo)).total_seconds())


def _json(body: bytes) -> Any:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document[0] if isinstance(document, list) and document else document
