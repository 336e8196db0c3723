"""Signs the JWTs of a NATS operator, of accounts and of users, and writes files of credentials."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nkeys

_UNLIMITED = {"subs": -1, "data": -1, "payload": -1}
_ACCOUNT_LIMITS = {
    **_UNLIMITED, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1,
}  # fmt: skip
_STREAMS = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}


class Identity:
    """A key pair, whose public key is the name of an operator, account or user."""

    def __init__(self, prefix: int) -> None:
        self.seed = nkeys.encode_seed(os.urandom(32), prefix)
        self._pair = nkeys.from_seed(bytearray(self.seed))
        self.public: str = self._pair.public_key.decode()

    def signed(self, subject: str, name: str, nats: Mapping[str, Any], **claims: Any) -> str:
        """A JWT of this identity about another one."""
        head = _encoded({"typ": "JWT", "alg": "ed25519-nkey"})
        body = _encoded(
            {"jti": os.urandom(16).hex(), "iat": int(time.time()), "iss": self.public, "sub": subject,
             "name": name, "nats": {"version": 2, **nats}, **claims}
        )  # fmt: skip
        signature = self._pair.sign(f"{head}.{body}".encode())
        return f"{head}.{body}.{_url(signature)}"


class Account:
    """An account whose users have the permissions of one scoped signing key; `{{name()}}` is the user's name."""

    def __init__(self, name: str, permissions: Mapping[str, Any], *, has_streams: bool = True) -> None:
        self.name = name
        self._limits = {**_ACCOUNT_LIMITS, **(_STREAMS if has_streams else {})}
        self.identity = Identity(nkeys.PREFIX_BYTE_ACCOUNT)
        self.revoked: dict[str, int] = {}
        self._scope = Identity(nkeys.PREFIX_BYTE_ACCOUNT)
        self._permissions = permissions

    def claims(self) -> dict[str, Any]:
        """What the operator signs of it."""
        template = {**_UNLIMITED, **self._permissions}
        key = {"kind": "user_scope", "key": self._scope.public, "role": "member", "template": template}
        return {"type": "account", "limits": self._limits, "signing_keys": [key],
                "revocations": self.revoked, "default_permissions": {"pub": {}, "sub": {}}}  # fmt: skip

    def user(self, folder: Path, name: str, **claims: Any) -> tuple[Path, str]:
        """A file of credentials, and the public key of the user."""
        user = Identity(nkeys.PREFIX_BYTE_USER)
        of = {"type": "user", "issuer_account": self.identity.public}
        return self._file(folder, name, self._scope.signed(user.public, name, of, **claims), user)

    def administrator(self, folder: Path) -> Path:
        """A file of credentials of one who may do everything in the account."""
        user = Identity(nkeys.PREFIX_BYTE_USER)
        token = self.identity.signed(user.public, "admin", {"type": "user", **_UNLIMITED})
        return self._file(folder, "admin", token, user)[0]

    def _file(self, folder: Path, name: str, token: str, user: Identity) -> tuple[Path, str]:
        file = folder / f"{self.name}-{name}.creds"
        file.write_text(
            f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{bytes(user.seed).decode()}\n------END USER NKEY SEED------\n"
        )
        file.chmod(0o600)
        return file, user.public


class Operator:
    """Who runs the server; `config` is its part of the configuration."""

    def __init__(self, *accounts: Account) -> None:
        self._identity = Identity(nkeys.PREFIX_BYTE_OPERATOR)
        self._system = Account("SYS", {"pub": {}, "sub": {}}, has_streams=False)
        self._accounts = accounts
        own, of = self._identity, {"type": "operator", "system_account": self._system.identity.public}
        self._token = own.signed(own.public, "operator", of)

    def config(self) -> str:
        """With what each account allows now."""
        tokens = {
            one.identity.public: self._identity.signed(one.identity.public, one.name, one.claims())
            for one in (self._system, *self._accounts)
        }
        preload = "\n".join(f"  {public}: {token}" for public, token in tokens.items())
        return (
            f"operator: {self._token}\n"
            f"system_account: {self._system.identity.public}\n"
            f"resolver: MEMORY\nresolver_preload {{\n{preload}\n}}\n"
        )


def _encoded(value: Mapping[str, Any]) -> str:
    return _url(json.dumps(value).encode())


def _url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
