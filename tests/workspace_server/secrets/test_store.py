"""The secret store as a whole: precedence, storage, failures."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from lm_tools_bridge.machine import private_files
from workspace_server.secrets.entry import InvalidSecretError, SecretStoreError, StoredSecret
from workspace_server.secrets.os_keyring import OsKeyring
from workspace_server.secrets.provided import CredentialFiles, EnvironmentSecrets
from workspace_server.secrets.sealed_file import SealedFile
from workspace_server.secrets.store import LayeredSecretStore, SecretChanges, open_store

CANARY = "canary-" + "7f3a" * 8


class Ring:
    """A keyring that works, until it is told to fail."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], str] = {}
        self.locked = False

    def _check(self) -> None:
        if self.locked:
            raise RuntimeError(f"locked; was asked about {CANARY}")

    def get_password(self, service: str, username: str) -> str | None:
        self._check()
        return self.values.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._check()
        self.values[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._check()
        del self.values[service, username]


def store_of(
    folder: Path, ring: Ring | None = None, environ: Mapping[str, str] | None = None
) -> LayeredSecretStore:
    return LayeredSecretStore(
        [EnvironmentSecrets(environ or {})], OsKeyring(lambda: ring), SealedFile(folder / "secrets")
    )


async def test_values_are_stored_and_deleted(tmp_path: Path) -> None:
    store = open_store(tmp_path, {})
    assert await store.list() == []
    assert await store.get("a") is None
    for key, value in (("b", ""), ("A.b-c_1", "ünïcode \u2028 \x00 \n"), ("k" * 128, "x" * 65536)):
        await store.set(key, value)
        assert await open_store(tmp_path, {}).get(key) == value
    assert await store.list() == sorted(["b", "A.b-c_1", "k" * 128])
    assert await store.delete("b") is True
    assert await store.delete("b") is False
    assert await store.get("b") is None


@pytest.mark.parametrize("key", ["", "a b", "a/b", "../a", "ä", "a\n", "k" * 129, CANARY + "/"])
async def test_an_invalid_key_is_refused_and_not_quoted(tmp_path: Path, key: str) -> None:
    store = open_store(tmp_path, {})
    for asked in (store.get(key), store.set(key, CANARY), store.delete(key)):
        with pytest.raises(InvalidSecretError) as refused:
            await asked
        assert refused.value.member == "key"
        assert CANARY not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["x" * 65537, "é" * 32769, "\ud800"])
async def test_an_invalid_value_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(InvalidSecretError) as refused:
        await open_store(tmp_path, {}).set("k", value)
    assert refused.value.member == "value"


async def test_files_are_private_and_show_neither_names_nor_values(tmp_path: Path) -> None:
    await open_store(tmp_path, {}).set("some-provider", CANARY)
    folder = tmp_path / "secrets"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["secrets.key", "secrets.lock", "secrets.sealed"]
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        content = path.read_bytes()
        assert CANARY.encode() not in content
        assert b"some-provider" not in content


async def test_environment_variables_take_precedence_and_are_read_only(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    await store.set("open-ai", "stored")
    provided = store_of(tmp_path, environ={"LMTB_SECRET_OPEN_AI": "given", "LMTB_SECRET_x": "", "OTHER": "1"})
    assert await provided.get("open-ai") == "given"
    assert await provided.get("OPEN_AI") == "given"
    assert await provided.get("x") is None
    assert await provided.list() == ["OPEN_AI", "open-ai"]
    for refused in (provided.set("open-ai", CANARY), provided.delete("open-ai")):
        with pytest.raises(SecretStoreError, match="LMTB_SECRET_OPEN_AI; change it there"):
            await refused
    assert await store.get("open-ai") == "stored"


async def test_credentials_of_the_service_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "openllm.a").write_bytes(b"value\n")
    (folder / "openllm.bad").write_bytes(b"\xff")
    (folder / "other-service").write_bytes(b"not ours")
    os.mkfifo(folder / "openllm.pipe")
    store = open_store(tmp_path / "state", {"CREDENTIALS_DIRECTORY": str(folder)})
    assert await store.get("a") == "value"
    assert await store.get("other-service") is None
    assert await store.list() == ["a", "bad", "pipe"]
    for key in ("bad", "pipe"):
        with pytest.raises(SecretStoreError, match=f"openllm.{key}"):
            await store.get(key)
    assert CredentialFiles(tmp_path / "absent").names() == set()


async def test_with_a_keyring_the_file_holds_names_only(tmp_path: Path) -> None:
    ring = Ring()
    store = store_of(tmp_path, ring)
    await store.set("a", CANARY)
    assert ring.values == {("lm-tools-bridge", "openllm.a"): CANARY}
    assert SealedFile(tmp_path / "secrets").read()["a"].value is None
    assert await store.get("a") == CANARY
    assert await store.list() == ["a"]
    assert await store.delete("a") is True
    assert ring.values == {}


async def test_a_value_set_without_the_keyring_replaces_the_older_one_in_it(tmp_path: Path) -> None:
    ring = Ring()
    with_ring, without = store_of(tmp_path, ring), store_of(tmp_path)
    await with_ring.set("a", "old")
    await without.set("a", "new")
    assert await with_ring.get("a") == await without.get("a") == "new"
    with pytest.raises(SecretStoreError, match="keyring"):
        await without.delete("a")  # the older one would come back
    await with_ring.set("a", "newest")
    assert SealedFile(tmp_path / "secrets").read()["a"].value is None
    assert await with_ring.get("a") == "newest"
    await with_ring.delete("a")
    assert await with_ring.get("a") is None


async def test_a_secret_in_an_unreachable_keyring_is_an_error_not_missing(tmp_path: Path) -> None:
    ring = Ring()
    store = store_of(tmp_path, ring)
    await store.set("a", "1")
    for other in (store_of(tmp_path), store):
        ring.locked = True
        with pytest.raises(SecretStoreError) as failed:
            await other.get("a")
        assert CANARY not in str(failed.value)
        assert await other.list() == ["a"]


@pytest.mark.parametrize("before", ["nowhere", "keyring", "file"])
async def test_a_keyring_that_refuses_leaves_the_old_value(tmp_path: Path, before: str) -> None:
    ring = Ring()
    store = store_of(tmp_path, ring)
    if before != "nowhere":
        await (store if before == "keyring" else store_of(tmp_path)).set("a", "old")
    ring.locked = True
    with pytest.raises(SecretStoreError, match="RuntimeError"):
        await store.set("a", "new")
    ring.locked = False
    assert await store.get("a") == (None if before == "nowhere" else "old")
    assert await store.list() == ([] if before == "nowhere" else ["a"])


async def test_on_a_full_disk_the_call_fails_and_the_old_value_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That no write leaves half a file is shown in test_private_files.py."""
    ring = Ring()
    plain, ringed = store_of(tmp_path / "plain"), store_of(tmp_path / "ringed", ring)
    for store in (plain, ringed):
        await store.set("a", "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(private_files, "write", full)
        for store in (plain, ringed):
            for key in ("a", "b"):
                with pytest.raises(SecretStoreError, match="No space left") as failed:
                    await store.set(key, CANARY)
                assert CANARY not in str(failed.value)
    for store in (plain, ringed):
        assert await store.get("a") == "old"
        assert await store.list() == ["a"]


async def test_a_damaged_file_is_moved_aside_and_never_treated_as_empty(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    await store.set("a", "1")
    file = tmp_path / "secrets" / "secrets.sealed"
    sealed = bytearray(file.read_bytes())
    sealed[-1] ^= 1
    file.write_bytes(sealed)
    aside = tmp_path / "secrets" / "secrets.sealed.damaged-1"
    with pytest.raises(SecretStoreError, match="damaged"):
        await store.get("a")
    assert aside.read_bytes() == sealed
    with pytest.raises(SecretStoreError, match="damaged"):
        await store.get("a")
    with pytest.raises(SecretStoreError, match="damaged"):
        await store.list()
    await store.set("b", "2")
    assert await store.get("b") == "2"
    assert await store.list() == ["b"]
    with pytest.raises(SecretStoreError, match="set it again"):
        await store.get("a")
    aside.unlink()
    assert await store.get("a") is None


@pytest.mark.parametrize("content", [b"", b"lmtb-secrets 1\n", b"lmtb-secrets 2\n" + b"x" * 40, b"{}"])
async def test_a_file_of_another_format_is_damaged(tmp_path: Path, content: bytes) -> None:
    store = store_of(tmp_path)
    await store.set("a", "1")
    (tmp_path / "secrets" / "secrets.sealed").write_bytes(content)
    with pytest.raises(SecretStoreError, match="damaged"):
        await store.set("a", "2")


async def test_a_missing_or_unsafe_key_is_reported_and_the_file_stays(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    await store.set("a", "1")
    key = tmp_path / "secrets" / "secrets.key"
    content = key.read_bytes()
    for refused in (store.get("a"), store.set("a", "2"), store.list()):
        key.unlink(missing_ok=True)
        with pytest.raises(SecretStoreError, match=r"secrets\.key is missing"):
            await refused
    key.write_bytes(content)
    key.chmod(0o644)
    with pytest.raises(SecretStoreError, match=r"secrets\.key is open to other users"):
        await store.get("a")
    key.chmod(0o600)
    assert await store.get("a") == "1"


@pytest.mark.parametrize(
    ("sealed_in", "opens"),
    [
        (b"secrets.sealed\x00lmtb-secrets 1\n", True),
        (b"secrets.sealed\x00lmtb-secrets 2\n", False),
        (b"other-file\x00lmtb-secrets 1\n", False),
        (b"lmtb-secrets 1\n", False),
        (None, False),
    ],
)
async def test_name_and_version_are_authenticated(
    tmp_path: Path, sealed_in: bytes | None, opens: bool
) -> None:
    """Content cannot be carried over from another file of the same key."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    store = store_of(tmp_path)
    await store.set("a", "1")
    key = (tmp_path / "secrets" / "secrets.key").read_bytes()
    content = AESGCM(key).encrypt(b"n" * 12, b"{}", sealed_in)
    (tmp_path / "secrets" / "secrets.sealed").write_bytes(b"lmtb-secrets 1\n" + b"n" * 12 + content)
    if opens:
        assert await store.get("a") is None
    else:
        with pytest.raises(SecretStoreError, match="damaged"):
            await store.get("a")


async def test_concurrent_writers_lose_no_secret(tmp_path: Path) -> None:
    stores = [store_of(tmp_path) for _ in range(4)]
    await asyncio.gather(*(stores[number % 4].set(f"k{number}", str(number)) for number in range(24)))
    assert await stores[0].list() == sorted(f"k{number}" for number in range(24))
    assert await stores[1].get("k7") == "7"


async def test_another_process_sees_and_changes_the_same_secrets(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys, pathlib\n"
        "from workspace_server.secrets.store import open_store\n"
        "async def main(store):\n"
        "    print(await store.get('mine'))\n"
        "    await store.set('theirs', 'from there')\n"
        "asyncio.run(main(open_store(pathlib.Path(sys.argv[1]), {})))\n"
    )
    store = store_of(tmp_path)
    await store.set("mine", "from here")
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path), stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[3],
    )  # fmt: skip
    said, _ = await asyncio.wait_for(child.communicate(), 30)
    assert said == b"from here\n"
    assert await store.get("theirs") == "from there"


def test_no_repr_shows_a_value() -> None:
    assert CANARY not in repr(StoredSecret("r", CANARY))


async def test_each_change_is_reported_once_whoever_made_it(tmp_path: Path) -> None:
    mine, another = open_store(tmp_path, {}), open_store(tmp_path, {})
    await another.set("old", "1")
    changes = SecretChanges(mine)
    assert await changes.poll() == []
    await another.set("old", "1")
    await mine.set("new", "2")
    assert await changes.poll() == [("new", "added"), ("old", "changed")]
    assert await changes.poll() == []
    await another.delete("old")
    assert await changes.poll() == [("old", "removed")]


async def test_a_store_that_cannot_be_read_has_not_changed(tmp_path: Path) -> None:
    store = open_store(tmp_path, {})
    await store.set("a", "1")
    changes = SecretChanges(store)
    await changes.poll()
    key = tmp_path / "secrets" / "secrets.key"
    content = key.read_bytes()
    key.unlink()
    (tmp_path / "secrets" / "secrets.sealed").touch()
    assert await changes.poll() == []
    key.write_bytes(content)
    key.chmod(0o600)
    await store.set("a", "2")
    assert await changes.poll() == [("a", "changed")]
