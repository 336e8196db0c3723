"""Makes the trust item of a project's `providers.json`: addresses that keys are sent to. Runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from workspace_server.internal_channel.provider_config import (
    FILE,
    WORKSPACE_FOLDER,
    ProviderConfig,
    ProviderConfigError,
    entries_in,
)
from workspace_server.trust.item import TrustItem, hashed
from workspace_server.trust.redaction import redacted_url

PROVIDERS_KEY: Final = "providers"


def provider_item(root: Path) -> TrustItem | None:
    """The item of a workspace; None if its file only restricts or names models, or cannot be used. Blocks.

    The whole content of the file is pinned: the same bytes whose addresses are shown.
    """
    try:
        content = ProviderConfig(root, root, root).content("workspace") or b""
        entries = entries_in(root / WORKSPACE_FOLDER / FILE, content or None)
    except ProviderConfigError:
        return None
    addresses = [
        [entry["name"], redacted_url(entry["apiBase"])]
        for entry in entries
        if isinstance(entry.get("apiBase"), str)
    ]
    if not addresses and not any(entry.get("enabled") is True for entry in entries):
        return None
    parts = [f"{name} at {address}" for name, address in addresses] or ["enabled by the project"]
    facts = {"from": f"{WORKSPACE_FOLDER}/{FILE}", "addresses": addresses, "content": hashed(content)}
    return TrustItem(PROVIDERS_KEY, f"model providers: {', '.join(parts)}", facts)
