"""Knows where providers are: built-in addresses, those that a person gives, keys and times. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit, urlunsplit

from yarl import URL

from lm_tools_bridge.agent.provider_keys import KeyWish
from lm_tools_bridge.agent.providers.dialects.openai import AZURE_VERSION, PATH


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a provider is.

    Attributes:
        name: the provider's name.
        kind: its dialect's name.
        base: its address, without a path of the dialect.
        key: which key it wants; `needs_key` tells whether it cannot do without.
        key_hint: what a person does to give it a key.
    """

    name: str
    kind: str
    base: str
    key: KeyWish
    needs_key: bool
    key_hint: str

    @property
    def shown_base(self) -> str:
        """The address as it may be shown."""
        url = URL(self.base)
        return str(url.with_user(None).with_query(None)).rstrip("/") if url.absolute else self.base


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Longest times in seconds: to connect, until a streamed reply begins, and of the whole reply."""

    connect_s: float = 5
    first_byte_s: float = 60
    answer_s: float = 300


USUAL: Final[Mapping[str, str]] = {
    "ollama": "http://localhost:11434",
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "google": "https://generativelanguage.googleapis.com/v1beta",
    "mistral": "https://api.mistral.ai/v1",
    "openrouter": "https://openrouter.ai/api/v1",
}
VARIABLES: Final[Mapping[str, str]] = {
    "ollama": "OLLAMA_HOST", "openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL",
    "azure": "AZURE_OPENAI_ENDPOINT",
}  # fmt: skip
"""Variables that other programs of the same provider read its address from."""
_OLLAMA_PORT: Final = 11434
_VERSIONED: Final[Mapping[str, str]] = {"openai": "/v1", "gemini": "/v1beta"}
_SUPERFLUOUS: Final[Mapping[str, re.Pattern[str]]] = {
    "ollama": re.compile(r"/(api|v1)(/chat)?$"),
    "anthropic": re.compile(r"/v1(/messages)?$"),
    "openai": re.compile(re.escape(PATH) + "$"),
    "gemini": re.compile(r"/models$"),
}
_DEPLOYMENT: Final = re.compile(r"/openai/deployments/([^/]+)")
_AZURE_PLAIN: Final = re.compile(r"(.*/openai/v1)(?:/.*)?$")


class AzureAddress(NamedTuple):
    """An address of Azure in its parts. `version` is None for the version-less API."""

    base: str
    version: str | None
    deployment: str | None


def address(name: str, kind: str, configured_address: str | None, environ: Mapping[str, str]) -> str | None:
    """The address of a provider, without the paths of its dialect; None if there is none.

    Args:
        name: the provider's name.
        kind: its dialect.
        configured_address: of the settings; else the provider's variable counts, else its usual address.
        environ: the variables.
    """
    base = configured_address or environ.get(VARIABLES.get(name, ""), "").strip() or USUAL.get(name)
    if not base:
        return None
    return _ollama(base) if kind == "ollama" else _complete(kind, base)


def azure(configured_address: str, environ: Mapping[str, str]) -> AzureAddress:
    """The parts of an address of Azure: of the resource, of a deployment, or of the version-less API."""
    parts = urlsplit(configured_address)
    if plain := _AZURE_PLAIN.fullmatch(parts.path):
        return AzureAddress(_of(parts.scheme, parts.netloc, plain[1]), None, None)
    deployment = _DEPLOYMENT.search(parts.path)
    requested_version = parse_qs(parts.query).get("api-version", [""])[0]
    version = (
        requested_version or environ.get("AZURE_OPENAI_API_VERSION") or environ.get("OPENAI_API_VERSION")
    )
    path = parts.path[: deployment.start()] if deployment else re.sub(r"/openai/?$", "", parts.path)
    base = _of(parts.scheme, parts.netloc, path)
    return AzureAddress(base, version or AZURE_VERSION, deployment[1] if deployment else None)


def _ollama(configured_address: str) -> str:
    """An address in the forms that `OLLAMA_HOST` has: without scheme or port, or one to listen on."""
    parts = urlsplit(configured_address if "://" in configured_address else f"http://{configured_address}")
    try:
        port = parts.port
    except ValueError:
        return configured_address
    host = parts.hostname or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  never listened on
    host = f"[{host}]" if ":" in host else host
    if port is None and "://" not in configured_address:
        port = _OLLAMA_PORT
    credentials, at, _ = parts.netloc.rpartition("@")
    return _complete(
        "ollama", _of(parts.scheme, f"{credentials}{at}{host}{f':{port}' if port else ''}", parts.path)
    )


def _complete(kind: str, configured_address: str) -> str:
    parts = urlsplit(configured_address)
    path = parts.path.rstrip("/")
    if (superfluous := _SUPERFLUOUS.get(kind)) is not None:
        path = superfluous.sub("", path)
    if kind == "azure":
        return configured_address
    return _of(parts.scheme, parts.netloc, path or _VERSIONED.get(kind, ""))


def _of(scheme: str, netloc: str, path: str) -> str:
    return urlunsplit((scheme, netloc, path.rstrip("/"), "", ""))
