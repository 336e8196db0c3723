"""Reads and writes the operating system's keyring through the optional library `keyring`.

Backends that always fail, store nothing or write plain text are refused. A keyring may ask the user to unlock
it, so every call runs in its own thread and is given up after 5 s.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from workspace_server.secrets.entry import SecretStoreError, entry_name

SERVICE: Final = "lm-tools-bridge"
# A keyring that is locked waits for the user's password, perhaps where nobody sees the question.
TIMEOUT_S: Final = 5.0
# A thread that waits for a keyring cannot be ended: more of them would only wait as well.
MAX_STUCK: Final = 4
_UNREAL: Final = ("keyring.backends.fail", "keyring.backends.null", "keyrings.alt")
_T = TypeVar("_T")


class KeyringBackend(Protocol):
    """The methods of a `keyring` backend that are used here."""

    def get_password(self, service: str, username: str) -> str | None:
        """The value, None when there is none."""

    def set_password(self, service: str, username: str, password: str) -> None:
        """Store a value."""

    def delete_password(self, service: str, username: str) -> None:
        """Remove a value; fails when there is none."""


def find_backend() -> KeyringBackend | None:
    """The library's default backend if it is a real keyring, else None. May block for long."""
    try:  # imported at the first use of a secret
        keyring: Any = importlib.import_module("keyring")
    except ImportError:
        return None
    try:
        backend: KeyringBackend | None = real_backend(keyring.get_keyring())
        return backend
    except Exception:  # noqa: BLE001  a backend may raise anything; its text is not shown, it may quote a value
        return None


def real_backend(backend: Any) -> Any | None:
    """`backend` if it is a real keyring, the first real one if it is a chain of backends, else None."""
    members = getattr(backend, "backends", None)
    if type(backend).__module__ == "keyring.backends.chainer" and members is not None:
        return next((member for member in members if real_backend(member) is not None), None)
    kind = type(backend)
    plain = any(
        base.__module__.startswith(_UNREAL) or "plaintext" in base.__name__.lower() for base in kind.__mro__
    )
    priority = getattr(kind, "priority", 0)
    return None if plain or not isinstance(priority, int | float) or priority < 1 else backend


class OsKeyring:
    """The keyring, found at its first use. Calls block for at most about `timeout_s`.

    Args:
        find: returns the backend, or None if there is no real one.
        timeout_s: seconds after which a call is given up.
    """

    def __init__(
        self, find: Callable[[], KeyringBackend | None] = find_backend, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._find = find
        self._timeout_s = timeout_s
        self._backend: KeyringBackend | None = None
        self._looked = False
        self._looking = threading.Lock()
        self._running: list[threading.Thread] = []

    def is_there(self) -> bool:
        """Whether this machine has a real keyring; checked once."""
        with self._looking:
            if not self._looked:
                try:
                    self._backend = self._bounded(self._find)
                except SecretStoreError:
                    self._backend = None
                self._looked = True
        return self._backend is not None

    def get(self, key: str) -> str | None:
        """The value, or None.

        Raises:
            SecretStoreError: there is no keyring, it is locked, or it does not answer in time.
        """
        backend = self._real()
        return self._bounded(lambda: backend.get_password(SERVICE, entry_name(key)))

    def set(self, key: str, value: str) -> None:
        """Store a value. Raises like `get`."""
        backend = self._real()
        self._bounded(lambda: backend.set_password(SERVICE, entry_name(key), value))

    def delete(self, key: str) -> None:
        """Remove a value, if there is one. Raises like `get`."""
        backend = self._real()

        def remove() -> None:
            if backend.get_password(SERVICE, entry_name(key)) is not None:
                backend.delete_password(SERVICE, entry_name(key))

        self._bounded(remove)

    def _real(self) -> KeyringBackend:
        if not self.is_there() or self._backend is None:
            raise SecretStoreError(
                "the secret is in the keyring, which this process cannot reach; use the desktop session in"
                " which the secret was stored, or set the secret again"
            )
        return self._backend

    def _bounded(self, work: Callable[[], _T]) -> _T:
        self._running = [thread for thread in self._running if thread.is_alive()]
        if len(self._running) >= MAX_STUCK:
            raise SecretStoreError("the keyring does not answer; unlock it, then try again")
        outcome: list[_T] = []
        faults: list[str] = []

        def run() -> None:
            try:
                outcome.append(work())
            except Exception as fault:  # noqa: BLE001  as in `find_backend`
                faults.append(type(fault).__name__)

        # a daemon thread: a keyring that never answers must not keep the process alive
        thread = threading.Thread(target=run, name="keyring", daemon=True)
        self._running.append(thread)
        thread.start()
        thread.join(self._timeout_s)
        if outcome:
            return outcome[0]
        if faults:
            raise SecretStoreError(f"the keyring refused ({faults[0]}); unlock it, then try again")
        raise SecretStoreError(
            f"the keyring did not answer within {self._timeout_s:g} s; unlock it, then try again"
        )
