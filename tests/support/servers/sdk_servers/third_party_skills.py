"""The skills of the third-party test server, by the skills extension (SEP-2640)."""

from __future__ import annotations

import hashlib
from typing import Any

Json = dict[str, Any]

EXTENSION = "io.modelcontextprotocol/skills"
SETTINGS: Json = {"directoryRead": True, "example.com/more": [1, {"deep": None}]}
"""What it declares; the second member is known to nobody."""
ROOT = "skill://acme/refunds"
FRONT: Json = {
    "name": "refunds",
    "description": "Pays back \u200dwith care 👩‍💻",
    "metadata": {"version": "1.0"},
    "x": None,
}
FILES: dict[str, str] = {
    f"{ROOT}/SKILL.md": (
        "---\nname: refunds\ndescription: Pays back \u200dwith care 👩‍💻\nmetadata:\n  version: '1.0'\nx: null\n---\n# How\n"
    ),
    f"{ROOT}/templates/mail.md": "Dear customer",
}
HIDDEN = "skill://acme/unlisted/SKILL.md"


def _entry(uri: str, front: Json, files: dict[str, str]) -> Json:
    resources = [
        {
            "uri": one,
            "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
            "size": len(text.encode()),
        }
        for one, text in files.items()
    ]
    return {
        "uri": uri,
        "frontmatter": front,
        "resources": resources,
        "example.com/kept": {"as": ["it", "is"]},
    }


ENTRY = _entry(f"{ROOT}/SKILL.md", FRONT, FILES)
UNLISTED = _entry(HIDDEN, {"name": "unlisted", "description": "In no list"}, {})
RESOURCES: list[Json] = [
    {"uri": f"{ROOT}/SKILL.md", "name": "refunds", "mimeType": "text/markdown"},
]
CHILDREN: dict[str, list[Json]] = {
    ROOT: [
        {"uri": f"{ROOT}/SKILL.md", "name": "refunds", "mimeType": "text/markdown"},
        {"uri": f"{ROOT}/templates", "name": "templates", "mimeType": "inode/directory"},
    ]
}
_HINTS: Json = {"ttlMs": 300_000, "cacheScope": "public"}


def added_to(options: Any, resources: list[Json], contents: Json) -> tuple[list[Json], Json]:
    """The resources and their contents by URI, with those of the skills if `options` ask for skills."""
    if not options.skills:
        return resources, contents
    files = {uri: {"uri": uri, "mimeType": "text/markdown", "text": text} for uri, text in FILES.items()}
    return [*resources, *RESOURCES], {**contents, **files}


def add_skills(server: Any, options: Any, modern: str) -> None:
    """Let a server of the official SDK offer the skills if `options` ask for them.

    `modern` is the revision with caching hints.
    """
    if not options.skills:
        return
    from mcp.shared.exceptions import MCPError
    from mcp_types import RequestParams

    class UriParams(RequestParams):
        uri: str = ""
        cursor: str | None = None

    def hints(ctx: Any) -> Json:
        return {"resultType": "complete", **_HINTS} if ctx.protocol_version == modern else {}

    async def list_skills(ctx: Any, params: Any) -> Json:
        return {"skills": [ENTRY], **hints(ctx)}

    async def get_skill(ctx: Any, params: Any) -> Json:
        for entry in (ENTRY, UNLISTED):
            if entry["uri"] == params.uri:
                return {"skill": entry, **hints(ctx)}
        raise MCPError(-32602, f"No skill is served at {params.uri}")

    async def read_directory(ctx: Any, params: Any) -> Json:
        if params.uri not in CHILDREN:
            raise MCPError(-32602, f"{params.uri} is not a directory resource")
        complete = {"resultType": "complete"} if ctx.protocol_version == modern else {}
        return {"resources": CHILDREN[params.uri], **complete}

    async def declare(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if ctx.method == "initialize":  # the older models have no extensions
            capabilities = {**result["capabilities"], "extensions": {EXTENSION: SETTINGS}}
            return {**result, "capabilities": capabilities}
        return result

    server.middleware.append(declare)
    server.extensions[EXTENSION] = SETTINGS
    server.add_request_handler("skills/list", UriParams, list_skills)
    server.add_request_handler("skills/get", UriParams, get_skill)
    server.add_request_handler("resources/directory/read", UriParams, read_directory)
