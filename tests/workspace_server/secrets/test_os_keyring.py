"""Only real keyrings are used, and none can block a call."""

from __future__ import annotations

import sys
import threading
import time
from types import ModuleType
from typing import Any

import pytest

from workspace_server.secrets.entry import SecretStoreError
from workspace_server.secrets.os_keyring import OsKeyring, find_backend, real_backend


def backend(module: str, name: str = "Keyring", priority: Any = 5, **members: Any) -> Any:
    return type(name, (), {"__module__": module, "priority": priority, **members})()


@pytest.mark.parametrize(
    ("module", "name", "priority"),
    [
        ("keyring.backends.fail", "Keyring", 5),
        ("keyring.backends.null", "Keyring", 5),
        ("keyrings.alt.file", "EncryptedKeyring", 5),
        ("somebodys.keyring", "PlaintextKeyring", 5),
        ("somebodys.keyring", "Keyring", 0.5),
        ("somebodys.keyring", "Keyring", None),
    ],
)
def test_backends_that_are_no_real_keyring_are_refused(module: str, name: str, priority: Any) -> None:
    assert real_backend(backend(module, name, priority)) is None


def test_a_subclass_of_a_refused_backend_is_refused() -> None:
    plain = type(backend("keyrings.alt.file", "PlaintextKeyring"))
    assert real_backend(type("Mine", (plain,), {"__module__": "mine", "priority": 9})()) is None


def test_the_first_real_backend_of_a_chain_is_used() -> None:
    real = backend("keyring.backends.SecretService")
    chain = [backend("keyrings.alt.file", "PlaintextKeyring"), real]
    assert real_backend(backend("keyring.backends.chainer", backends=chain)) is real
    assert real_backend(backend("keyring.backends.chainer", backends=chain[:1])) is None


def test_without_the_library_there_is_no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert find_backend() is None
    with pytest.raises(SecretStoreError, match="this process cannot reach"):
        OsKeyring().get("a")


def test_an_error_of_the_library_means_no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    library, real = ModuleType("keyring"), backend("keyring.backends.macOS")
    vars(library)["get_keyring"] = lambda: real
    monkeypatch.setitem(sys.modules, "keyring", library)
    assert find_backend() is real

    def broken() -> None:
        raise RuntimeError("no bus")

    vars(library)["get_keyring"] = broken
    assert find_backend() is None


def test_an_unresponsive_keyring_is_given_up_and_the_calls_are_limited() -> None:
    released = threading.Event()
    asked = []

    def stuck(*args: str) -> str | None:
        asked.append(args)
        released.wait(30)
        return None

    ring = OsKeyring(lambda: backend("real", get_password=lambda self, *args: stuck(*args)), timeout_s=0.02)
    assert ring.is_there()
    try:
        for _ in range(4):
            with pytest.raises(SecretStoreError, match=r"within 0\.02 s"):
                ring.get("a")
        started = time.monotonic()
        with pytest.raises(SecretStoreError, match="does not answer"):
            ring.get("a")
        assert time.monotonic() - started < 5
        assert len(asked) == 4
    finally:
        released.set()


def test_a_keyring_that_hangs_counts_as_missing() -> None:
    released = threading.Event()

    def hang() -> None:
        released.wait(30)

    try:
        assert not OsKeyring(hang, timeout_s=0.02).is_there()
    finally:
        released.set()
