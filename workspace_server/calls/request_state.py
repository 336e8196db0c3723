"""Seals and opens the `requestState` of calls that wait for their clients: valid once, for ten minutes.

A state is sent with every input request and returns with the client's next request. It is encrypted and
authenticated together with the call it belongs to: nobody else can make one, read one, or use one for another
call. It begins with the workspace (`lm_tools_bridge.protocol.internal.request_state`). All methods block.
"""

from __future__ import annotations

import binascii
import os
import struct
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.protocol.internal import request_state
from workspace_server import log

FOLDER: Final = "approvals"
APPROVAL, REPEAT, OPEN_URL, SUSPENDED = request_state.APPROVAL, "run", "open", request_state.SUSPENDED
"""Kinds of state. APPROVAL: a person is asked whether the call may run. REPEAT: the call is repeated with the
answers. OPEN_URL: the call is repeated after a page was opened. SUSPENDED: a suspended call is resumed."""
_KINDS: Final = (APPROVAL, REPEAT, OPEN_URL, SUSPENDED)
# The time that a person has for an answer. A state that leaks is worth nothing afterwards.
TTL_S: Final = 600.0
# Lengths of AES-256-GCM: the key, and the nonce that NIST SP 800-38D recommends.
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_HEAD: Final = struct.Struct("!d?")


@dataclass(frozen=True)
class StateBinding:
    """Identifies the call that a state is valid for.

    Attributes:
        method: `tools/call`, `prompts/get` or `resources/read`.
        name: the offered name of the tool or prompt, or the URI.
        arguments: the decoded arguments; the order of members does not matter.
        fingerprint: identifies the code that runs, if that is known.
        caller: the calling session, as in `CallContext`.
    """

    method: str
    name: str
    arguments: Any = None
    fingerprint: str = ""
    caller: str = ""

    @cached_property
    def text(self) -> bytes:
        """A text that is equal for equal calls only."""
        digest = sha256(msgspec.json.encode(self.arguments, order="deterministic")).hexdigest()
        return msgspec.json.encode([self.method, self.name, digest, self.fingerprint, self.caller])


@dataclass(frozen=True, slots=True)
class Opened:
    """A valid state of this call. `inner` is the text that was sealed inside."""

    kind: str
    nonce: bytes
    expiry: float
    inner: str | None


class RequestStates:
    """Seals and opens states, and remembers the used ones.

    Args:
        workspace: the workspace's id; a state is valid in one workspace only.
        state_dir: the product's state folder. The key and the used states are stored in `approvals` below it,
            so that states survive a restart. None: both are kept in memory only.
        ttl_s: for how many seconds a state is valid.
    """

    def __init__(self, workspace: str, state_dir: Path | None = None, ttl_s: float = TTL_S) -> None:
        self.ttl_s = ttl_s
        self._prefix = request_state.prefix(workspace)
        self._folder = None if state_dir is None else state_dir / FOLDER
        self._key: bytes | None = None
        self._spent: dict[bytes, float] = {}
        self._lock = threading.Lock()

    def kind_of(self, state: str) -> str | None:
        """The kind that a `requestState` claims to have; None if it is not one of ours."""
        kind = state.removeprefix(self._prefix).partition(".")[0]
        return kind if state.startswith(self._prefix) and kind in _KINDS else None

    def seal(self, kind: str, binding: StateBinding, now: float, inner: str | None = None) -> str:
        """A new state, valid from `now` on."""
        nonce = os.urandom(_NONCE_BYTES)
        plain = _HEAD.pack(now + self.ttl_s, inner is not None) + (inner or "").encode()
        sealed = self._cipher().encrypt(nonce, plain, self._associated_data(kind, binding))
        return f"{self._prefix}{kind}.{_text(nonce + sealed)}"

    def open(self, state: str, binding: StateBinding, now: float) -> Opened | None:
        """The content of a state; None unless it was sealed for exactly this call and has not expired."""
        from cryptography.exceptions import InvalidTag

        kind = self.kind_of(state)
        if kind is None:
            return None
        text = state.removeprefix(f"{self._prefix}{kind}.")
        try:
            sealed = _bytes(text)
            nonce = sealed[:_NONCE_BYTES]
            plain = self._cipher().decrypt(nonce, sealed[_NONCE_BYTES:], self._associated_data(kind, binding))
        except (ValueError, binascii.Error, InvalidTag):
            return None
        expiry, has_inner = _HEAD.unpack_from(plain)
        # base64 has several spellings for the same bytes; only the canonical one is accepted
        if text != _text(sealed) or not 0 < expiry - now <= self.ttl_s:
            return None
        return Opened(kind, nonce, expiry, plain[_HEAD.size :].decode() if has_inner else None)

    def spend(self, opened: Opened, now: float) -> bool:
        """Mark a state as used; False if it was used before, in this run or an earlier one."""
        with self._lock:
            self._spent = {nonce: expiry for nonce, expiry in self._spent.items() if expiry > now}
            if opened.nonce in self._spent:
                return False
            self._spent[opened.nonce] = opened.expiry
        return self._folder is None or self._record(self._folder / "spent", opened, now)

    def _record(self, folder: Path, opened: Opened, now: float) -> bool:
        name = f"{int(opened.expiry) + 1}-{opened.nonce.hex()}"
        try:
            private_files.make_private(folder.parent)
            private_files.make_private(folder)
            is_first = private_files.create(folder / name, b"")
            _remove_expired(folder, now)
        except (OSError, private_files.UnsafePathError) as error:
            # a full disk must not stop the user's work; this run still remembers the state
            log.error("approval_not_recorded", cause=type(error).__name__)
            return True
        return is_first

    def _associated_data(self, kind: str, binding: StateBinding) -> bytes:
        """What is authenticated but not contained."""
        return f"{self._prefix}{kind}.".encode() + binding.text

    def _cipher(self) -> Any:
        # loaded with the first state: takes 20 ms
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        with self._lock:
            if self._key is None:
                self._key = os.urandom(_KEY_BYTES) if self._folder is None else _stored_key(self._folder)
            return AESGCM(self._key)


def _stored_key(folder: Path) -> bytes:
    path = folder / "key"
    with suppress(OSError, private_files.UnsafePathError, private_files.LockTimeout):
        private_files.make_private(folder)
        with private_files.locked(folder / "lock"):
            key = private_files.read(path, _KEY_BYTES)
            if key is None or len(key) != _KEY_BYTES:
                key = os.urandom(_KEY_BYTES)
                private_files.write(path, key)
            return key
    log.error("approval_key_not_stored", file=str(path))
    return os.urandom(_KEY_BYTES)


def _remove_expired(folder: Path, now: float) -> None:
    for path in folder.iterdir():
        expiry = path.name.partition("-")[0]
        if expiry.isdigit() and int(expiry) <= now:
            path.unlink(missing_ok=True)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
