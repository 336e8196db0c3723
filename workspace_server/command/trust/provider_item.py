"""Makes the trust item of a project's `providers.json`: addresses that keys are sent to. Runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from host.files import private_files
from workspace_server.internal_channel.provider_config import (
    FILE,
    MAX_BYTES,
    WORKSPACE_FOLDER,
    ProviderConfig,
    ProviderConfigError,
)
from workspace_server.trust.item import TrustItem, hashed
from workspace_server.trust.redaction import redacted_url

PROVIDERS_KEY: Final = "providers"


def provider_item(root: Path) -> TrustItem | None:
    """The item of a workspace; None if its file only restricts or names models, or cannot be used. Blocks.

    The whole content of the file is pinned.
    """
    config, file = ProviderConfig(root, root, root), root / WORKSPACE_FOLDER / FILE
    try:
        content = private_files.read(file, MAX_BYTES, private=False) or b""
        found = config.providers("workspace")
        enables = any(entry.get("enabled") is True for entry in config.entries("workspace").values())
    except (ProviderConfigError, private_files.UnsafePathError, OSError):
        return None
    addresses = [[one["name"], redacted_url(one["apiBase"])] for one in found if "apiBase" in one]
    if not addresses and not enables:
        return None
    parts = [f"{name} at {address}" for name, address in addresses] or ["enabled by the project"]
    facts = {"from": f"{WORKSPACE_FOLDER}/{FILE}", "addresses": addresses, "content": hashed(content)}
    return TrustItem(PROVIDERS_KEY, f"model providers: {', '.join(parts)}", facts)
