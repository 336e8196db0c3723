"""The sealed state of a question: proves which call a person was asked about, once, for ten minutes (T-179).

What it is for is decided in `approvals.py`. It holds no secret; nobody else can make one. All methods block.
"""

from __future__ import annotations

import binascii
import hmac
import os
import struct
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

import msgspec

from workspace_server import log, private_files

FOLDER: Final = "approvals"
ASK, RUN = "ask", "run"
"""A question that is out; a call that was approved and asks for more input itself."""
_TAG: Final = "lmtb1"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 16
_HEAD: Final = struct.Struct(f"!{_NONCE_BYTES}sd")


@dataclass(frozen=True, slots=True)
class Bound:
    """What an approval is for: tool, digest of the arguments, what exactly runs, and who calls."""

    tool: str
    arguments: str
    fingerprint: str
    caller: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A state that is ours and of this call. `inner` is a third party's state that was put inside."""

    kind: str
    nonce: bytes
    expiry: float
    inner: str | None


class ApprovalState:
    """Seals and opens states, and remembers which were used.

    Args:
        state_dir: the product's state folder; the key and the used states live in `approvals` below it, so
            that a restart between question and answer changes nothing.
        workspace: the workspace's id; a state is for one workspace only.
        ttl_s: seconds for which a state is good.
    """

    def __init__(self, state_dir: Path, workspace: str, ttl_s: float = 600.0) -> None:
        self._folder = state_dir / FOLDER
        self._spent_folder = self._folder / "spent"
        self._workspace = workspace
        self._ttl_s = ttl_s
        self._key: bytes | None = None
        self._spent: dict[bytes, float] = {}
        self._lock = threading.Lock()

    @staticmethod
    def is_ours(state: str) -> bool:
        """Whether a `requestState` claims to be one of these."""
        return state.startswith(f"{_TAG}.")

    def seal(self, kind: str, bound: Bound, now: float, inner: str | None = None) -> str:
        """A new state, good from `now` on."""
        head = _HEAD.pack(os.urandom(_NONCE_BYTES), now + self._ttl_s)
        inside = "" if inner is None else "=" + _text(inner.encode())
        return ".".join((_TAG, kind, _text(head), inside, _text(self._mac(kind, head, inside, bound))))

    def open(self, state: str, bound: Bound, now: float) -> Opened | None:
        """What a state says; None unless it was sealed for exactly this and is still good."""
        try:
            tag, kind, head_text, inside, mac = state.split(".")
            head = _bytes(head_text)
            nonce, expiry = _HEAD.unpack(head)
            # compared as text: of one value there is one spelling
            fits = hmac.compare_digest(mac, _text(self._mac(kind, head, inside, bound)))
            inner = _bytes(inside[1:]).decode() if inside else None
        except (ValueError, TypeError, struct.error, binascii.Error):
            return None
        if not fits or tag != _TAG or not 0 < expiry - now <= self._ttl_s:
            return None
        return Opened(kind, nonce, expiry, inner)

    def spend(self, opened: Opened, now: float) -> bool:
        """Use a state; False when it was used before, in this run or another."""
        with self._lock:
            self._spent = {nonce: expiry for nonce, expiry in self._spent.items() if expiry > now}
            if opened.nonce in self._spent:
                return False
            self._spent[opened.nonce] = opened.expiry
        return self._enter(opened, now)

    def _enter(self, opened: Opened, now: float) -> bool:
        name = f"{int(opened.expiry) + 1}-{opened.nonce.hex()}"
        try:
            private_files.make_private(self._folder)
            private_files.make_private(self._spent_folder)
            is_first = private_files.create(self._spent_folder / name, b"")
            self._forget(now)
        except (OSError, private_files.Unsafe) as error:
            # a disk that is full must not stop the user's work; this run remembers
            log.error("approval_not_recorded", cause=type(error).__name__)
            return True
        return is_first

    def _forget(self, now: float) -> None:
        for path in self._spent_folder.iterdir():
            expiry = path.name.partition("-")[0]
            if expiry.isdigit() and int(expiry) <= now:
                path.unlink(missing_ok=True)

    def _mac(self, kind: str, head: bytes, inside: str, bound: Bound) -> bytes:
        said = [_TAG, kind, head.hex(), inside, self._workspace, *astuple(bound)]
        return hmac.digest(self._key_bytes(), msgspec.json.encode(said), "sha256")

    def _key_bytes(self) -> bytes:
        with self._lock:
            if self._key is None:
                self._key = self._stored_key()
            return self._key

    def _stored_key(self) -> bytes:
        path = self._folder / "key"
        with suppress(OSError, private_files.Unsafe, private_files.Busy):
            private_files.make_private(self._folder)
            with private_files.locked(self._folder / "lock"):
                key = private_files.read(path, _KEY_BYTES)
                if key is None or len(key) != _KEY_BYTES:
                    key = os.urandom(_KEY_BYTES)
                    private_files.write(path, key)
                return key
        log.error("approval_key_not_stored", file=str(path))
        return os.urandom(_KEY_BYTES)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
