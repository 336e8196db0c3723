"""The shapes that results of the built-in tools keep, for tests: the tools themselves promise none (T-120)."""

from __future__ import annotations

from typing import Any

FIND_FILES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 0},
        "capped": {"type": "boolean"},
        "files": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["count", "capped", "files"],
    "additionalProperties": False,
}
FIND_TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "capped": {"type": "boolean"},
        "uniqueMatches": {"type": "integer", "minimum": 0},
        "totalMatches": {"type": "integer", "minimum": 0},
        "matches": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "line": {"type": "integer", "minimum": 1},
                    "preview": {"type": "string"},
                },
                "required": ["path", "line", "preview"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["capped", "uniqueMatches", "totalMatches", "matches"],
    "additionalProperties": False,
}
LIST_DIRECTORY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 0},
        "capped": {"type": "boolean"},
        "entries": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "absolutePath": {"type": "string"},
                    "workspacePath": {"type": ["string", "null"]},
                    "kind": {"type": "string", "enum": ["file", "directory", "symlink", "other"]},
                    "sizeBytes": {"type": ["integer", "null"], "minimum": 0},
                },
                "required": ["absolutePath", "workspacePath", "kind", "sizeBytes"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["count", "capped", "entries"],
    "additionalProperties": False,
}
READ_FILE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "absolutePath": {"type": "string"},
        "workspacePath": {"type": ["string", "null"]},
        "startLine": {"type": "integer", "minimum": 0},
        "endLine": {"type": "integer", "minimum": 0},
        "totalLines": {"type": "integer", "minimum": 0},
        "sizeBytes": {"type": "integer", "minimum": 0},
        "encoding": {
            "type": "string",
            "enum": ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "windows-1252", "iso-8859-1", "binary"],
        },
        "truncated": {"type": "boolean"},
        "content": {"type": "string"},
    },
    "required": [
        "absolutePath",
        "workspacePath",
        "startLine",
        "endLine",
        "totalLines",
        "sizeBytes",
        "encoding",
        "truncated",
        "content",
    ],
    "additionalProperties": False,
}
CALCULATOR: dict[str, Any] = {
    "type": "object",
    "properties": {"value": {"type": ["number", "string"]}},
    "required": ["value"],
    "additionalProperties": False,
}
DATE_TIME: dict[str, Any] = {
    "type": "object",
    "properties": {
        "iso": {"type": "string"},
        "epochSeconds": {"type": "number"},
        "timezone": {"type": "string"},
        "utcOffset": {"type": "string"},
        "weekday": {
            "type": "string",
            "enum": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
        },
        "ambiguous": {"const": True},
        "gap": {"const": True},
        "seconds": {"type": "number"},
        "duration": {"type": "string"},
    },
    "oneOf": [
        {"required": ["iso", "epochSeconds", "timezone", "utcOffset", "weekday"]},
        {"required": ["seconds", "duration"]},
    ],
    "additionalProperties": False,
}
