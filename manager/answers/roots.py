"""The last rung: the folders a client works in, asked for when nothing else names a workspace.

A stateless client is asked with the answer itself: `input_required`, and it repeats its call with its roots
and a signed state that says what was asked. Only `tools/call` is asked about so: lists must not differ.
How a client with a session is asked is `sessions/roots.py`. Which workspace the roots mean is decided in
`workspace_lookup.py`.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import structs

from manager.answers import result_format
from manager.answers.exchange import Exchange, Plain
from protocol import jsonrpc, names
from protocol.errors import Reason, Refusal

TTL_S: Final = 600.0
MAX_ROOTS: Final = 32
MAX_URI: Final = 16 * 1024
QUESTION: Final = "workspace"
MAX_DIGITS: Final = 12
_TAG: Final = "lmtbr"
_OURS: Final = ("requestState", "inputResponses")


def roots_in(result: bytes | msgspec.Raw) -> tuple[str, ...]:
    """The `file:` URIs of a `roots/list` result; empty for anything else."""
    try:
        listed = msgspec.json.decode(jsonrpc.members_of(result).get("roots", b"[]"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    entries: Iterable[Any] = listed[:MAX_ROOTS] if isinstance(listed, list) else ()
    uris = (entry.get("uri") for entry in entries if isinstance(entry, Mapping))
    return tuple(uri for uri in uris if isinstance(uri, str) and len(uri) <= MAX_URI and _is_file(uri))


def _is_file(uri: str) -> bool:
    return uri[:5].lower() == "file:"


def declares_roots(capabilities: bytes | msgspec.Raw) -> bool:
    """Whether a client with these capabilities can be asked for its roots."""
    return "roots" in jsonrpc.members_of(capabilities)


class RootsRequests:
    """Asks stateless clients.

    Args:
        key: signs states; a new one with every start of the manager, which a client just calls again after.
        wall: seconds since 1970.
    """

    def __init__(self, key: bytes, wall: Callable[[], float]) -> None:
        self._key = key
        self._wall = wall

    def input_required(self, exchange: Exchange) -> Plain | None:
        """The answer that asks for roots; None where this client cannot be asked, or just was."""
        capabilities = exchange.inbound.meta.get(names.META_CAPABILITIES, msgspec.Raw(b"{}"))
        if not (exchange.is_modern and exchange.is_tool_call and exchange.claims.roots is None):
            return None
        if not declares_roots(capabilities):
            return None
        value = {
            "resultType": "input_required",
            "inputRequests": {QUESTION: {"method": names.ROOTS_LIST}},
            "requestState": self._sealed(exchange, int(self._wall() + TTL_S)),
        }
        return Plain(result_format.result(exchange, value))

    def accept_answer(self, exchange: Exchange) -> Exchange | Plain:
        """The request as if it had told its roots itself, where it answers our question; else unchanged.

        An answer to a question that was never asked about this call is refused (-32602).
        """
        state = exchange.params.get("requestState")
        text = None if state is None else jsonrpc.text_of(state)
        if not exchange.is_modern or text is None or not text.startswith(f"{_TAG}."):
            return exchange
        if not self._is_ours(exchange, text):
            step = "call again without requestState and inputResponses"
            why = "requestState is not of this call, or has expired"
            return Plain(
                Refusal(Reason.INVALID_ARGUMENTS, why, step, "no").as_error(exchange.message.id), 400
            )
        answers = jsonrpc.members_of(exchange.params.get("inputResponses", b"{}"))
        return _without_answer(exchange, roots_in(answers.get(QUESTION, b"{}")))

    def _is_ours(self, exchange: Exchange, state: str) -> bool:
        expiry = state.split(".")[1]
        if not (expiry.isascii() and expiry.isdigit() and len(expiry) <= MAX_DIGITS):
            return False
        fits = hmac.compare_digest(
            state.encode("utf-8", "replace"), self._sealed(exchange, int(expiry)).encode()
        )
        return fits and int(expiry) >= self._wall()

    def _sealed(self, exchange: Exchange, expiry: int) -> str:
        params = exchange.params
        arguments = jsonrpc.bytes_of(params.get("arguments", msgspec.Raw(b"{}")))
        said = [_TAG, expiry, exchange.inbound.name, sha256(_plain(arguments)).hexdigest()]
        mac = hmac.digest(self._key, jsonrpc.dumps(said), "sha256")
        return f"{_TAG}.{expiry}.{urlsafe_b64encode(mac).decode().rstrip('=')}"


def _plain(arguments: bytes) -> bytes:
    """Arguments in one spelling: a client may write the same ones differently when it calls again."""
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="deterministic")
    except (msgspec.DecodeError, OverflowError, RecursionError):
        return arguments


def _without_answer(exchange: Exchange, roots: tuple[str, ...]) -> Exchange:
    """The call alone: question and answer were between the client and us."""
    params = {name: raw for name, raw in exchange.params.items() if name not in _OURS}
    message, text = exchange.message, jsonrpc.dumps(params)
    body = jsonrpc.with_params(message.body, message.params, text)
    exchange.tells(structs.replace(exchange.claims, roots=roots))
    return replace(
        exchange,
        inbound=structs.replace(exchange.inbound, params=params),
        message=structs.replace(message, params=text, body=body),
    )
