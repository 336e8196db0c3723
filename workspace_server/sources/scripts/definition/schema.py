"""Makes the tool definition of `tools/list` from a manifest. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workspace_server.sources.scripts.definition.manifest import Manifest
from workspace_server.tool import Tool


def input_schema(manifest: Manifest) -> dict[str, Any]:
    """The JSON Schema of the arguments in file order, so that the same file gives the same bytes."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: parameter.schema for parameter in manifest.parameters},
        "additionalProperties": False,
    }
    if required := [parameter.name for parameter in manifest.parameters if parameter.required]:
        schema["required"] = required
    return schema


def tool(manifest: Manifest, fingerprint: str) -> Tool:
    """The tool that a manifest describes; `fingerprint` identifies the bytes that run."""
    definition: dict[str, Any] = {
        "name": manifest.name,
        "description": manifest.description,
        "inputSchema": input_schema(manifest),
    }
    if manifest.output_schema is not None:
        definition["outputSchema"] = manifest.output_schema
    if manifest.annotations is not None:
        definition["annotations"] = manifest.annotations
    return Tool(
        manifest.name,
        definition,
        manifest.visibility,
        manifest.keywords,
        timeout_s=manifest.timeout_s,
        requires_approval=manifest.requires_approval,
        rate_limited=manifest.network,
        fingerprint=fingerprint,
        task=manifest.task,
    )


def with_defaults(manifest: Manifest, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with defaults for those that the call left out."""
    defaults = {
        parameter.name: parameter.schema["default"]
        for parameter in manifest.parameters
        if "default" in parameter.schema and parameter.name not in arguments
    }
    return {**arguments, **defaults}
