"""Asks a stateless client for its roots, unless its call names the workspace.

The answer is `input_required` (MCP 2026-07-28) with a signed `requestState`; the client repeats its call with
its roots. It is asked with each call, because its roots may change without notice. Only `tools/call` is
answered so, because lists must not vary between requests. `sessions/roots.py` asks session clients;
`workspace_lookup.py` decides which workspace the roots mean.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import structs

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.input_requests import roots_in
from manager.answers import replies
from manager.answers.exchange import Exchange
from manager.answers.replies import Plain

TTL_S: Final = 600.0
"""Seconds for which the state of a question for roots is valid: as long as a client has for any input
(`INPUT_TIMEOUT_S`)."""
INPUT_KEY: Final = "workspace"
MAX_DIGITS: Final = 12
"""Digits of an expiry, in seconds since 1970: enough for 30,000 years. Python refuses to read thousands of
digits."""
_TAG: Final = "lmtbr"
_ANSWER_PARAMS: Final = ("requestState", "inputResponses")


class RootsRequests:
    """Asks stateless clients for roots and reads their answers.

    Args:
        key: signs request states; new with every start of the manager, after which a client calls again.
        wall: returns seconds since 1970.
    """

    def __init__(self, key: bytes, wall: Callable[[], float]) -> None:
        self._key = key
        self._wall = wall

    def input_required(self, exchange: Exchange) -> Plain | None:
        """The result that asks for roots; None if the client need not be asked or has just answered."""
        if not (exchange.is_modern and exchange.wants_roots):
            return None
        value = {
            "resultType": "input_required",
            "inputRequests": {INPUT_KEY: {"method": names.ROOTS_LIST}},
            "requestState": self._signed_state(exchange, int(self._wall() + TTL_S)),
        }
        return Plain(replies.result(exchange, value))

    def accept_answer(self, exchange: Exchange) -> Exchange | Plain:
        """Read the roots from a request that answers `input_required`; other requests are returned unchanged.

        Returns:
            The request without the answer, its claims with the roots; or an error (-32602) if the request
            state does not belong to this call or has expired.
        """
        state = exchange.params.get("requestState")
        text = None if state is None else jsonrpc.text_of(state)
        if not exchange.is_modern or text is None or not text.startswith(f"{_TAG}."):
            return exchange
        if not self._is_valid(exchange, text):
            step = "call again without requestState and inputResponses"
            why = "requestState is not of this call, or has expired"
            return Plain(
                Refusal(Reason.INVALID_ARGUMENTS, why, step, "no").as_error(exchange.message.id), 400
            )
        answers = jsonrpc.members_of(exchange.params.get("inputResponses", b"{}"))
        return _without_answer(exchange, roots_in(answers.get(INPUT_KEY, b"{}")))

    def _is_valid(self, exchange: Exchange, state: str) -> bool:
        expiry = state.split(".")[1]
        if not (expiry.isascii() and expiry.isdigit() and len(expiry) <= MAX_DIGITS):
            return False
        fits = hmac.compare_digest(
            state.encode("utf-8", "replace"), self._signed_state(exchange, int(expiry)).encode()
        )
        return fits and int(expiry) >= self._wall()

    def _signed_state(self, exchange: Exchange, expiry: int) -> str:
        params = exchange.params
        arguments = jsonrpc.bytes_of(params.get("arguments", msgspec.Raw(b"{}")))
        signed = [_TAG, expiry, exchange.inbound.name, sha256(_canonical(arguments)).hexdigest()]
        mac = hmac.digest(self._key, jsonrpc.dumps(signed), "sha256")
        return f"{_TAG}.{expiry}.{urlsafe_b64encode(mac).decode().rstrip('=')}"


def _canonical(arguments: bytes) -> bytes:
    """Arguments in canonical JSON: a client may serialise them differently when it repeats the call."""
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="deterministic")
    except (msgspec.DecodeError, OverflowError, RecursionError):
        return arguments


def _without_answer(exchange: Exchange, roots: tuple[str, ...]) -> Exchange:
    """The request without `requestState` and `inputResponses`, its claims with the roots."""
    params = {name: raw for name, raw in exchange.params.items() if name not in _ANSWER_PARAMS}
    message, text = exchange.message, jsonrpc.dumps(params)
    body = jsonrpc.with_params(message.body, message.params, text)
    exchange.replace_claims(structs.replace(exchange.claims, roots=roots))
    return structs.replace(
        exchange,
        inbound=structs.replace(exchange.inbound, params=params),
        message=structs.replace(message, params=text, body=body),
    )
