"""A sample status answer with healthy, failing and pending parts."""

from __future__ import annotations

from typing import Any

STATUS: dict[str, Any] = {
    "ok": True,
    "version": "9.8.7",
    "pid": 4711,
    "state": "degraded",
    "degraded": ["the state folder is full"],
    "uptimeSec": 7500,
    "address": "http://127.0.0.1:5/mcp",
    "sessions": 1,
    "figures": {"calls": 3, "managerMs": {"p50": 0.061, "p99": 1.31}},
    "workspaceDetails": [
        {"id": "quiet-1", "root": "/srv/quiet", "state": "stopped"},
        {"id": "busy-2", "root": "/srv/busy", "state": "ready", "calls": 3},
        {"id": "ill-3", "root": "/srv/ill", "state": "crash_looping", "lastError": "ended with \x1b[31m1"},
    ],
    "instanceDetails": [
        {
            "workspace": "busy-2",
            "root": "/srv/busy",
            "pid": 22,
            "port": 21001,
            "state": "ready",
            "restarts": 1,
            "calls": 3,
            "errors": 0,
            "serverMs": {"p50": 12.4, "p99": 2500.0},
            "rssBytes": 51_000_000,
            "cpuSec": 0.25,
        },
        {
            "workspace": "theirs-9",
            "root": "/srv/theirs",
            "pid": 23,
            "port": 5,
            "state": "ready",
            "sources": [
                {"id": "stdio:gh", "state": "backoff", "error": "end\x1bed"},
                {"id": "x", "state": "ready"},
            ],
            "issues": [
                {
                    "level": "warning",
                    "code": "TRUST_PENDING",
                    "message": "a",
                    "details": "lmtb trust /srv/theirs",
                },
                {"level": "error", "code": "SOURCE_UNAVAILABLE", "message": "said by the state"},
                {"level": "error", "code": "CONFIG_BROKEN", "message": "a file is broken"},
                {"level": "warning", "code": "X", "message": "minor"},
            ],
        },
    ],
    "sessionDetails": [
        {
            "sessionId": "abcdefgh…",
            "client": {"name": "cl\x07aude", "version": None},
            "workspace": "busy-2",
            "lastSource": "session",
            "protocolVersion": "2025-06-18",
            "lastSeenAgeSec": 61,
            "inFlight": 2,
        }
    ],
}
