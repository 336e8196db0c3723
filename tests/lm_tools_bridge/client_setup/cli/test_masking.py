"""Tests of what is hidden in changes that are shown: values that may be secret, in any spelling."""

from __future__ import annotations

import json

from lm_tools_bridge.client_setup.cli.masking import MASK, masked, secrets_in, secrets_of


def test_values_that_may_be_secret_are_masked_however_they_are_written() -> None:
    secret = 'p"ä\\ss'
    entry = {
        "command": "npx",
        "args": [
            "-y",
            "pkg",
            "--api-key",
            "key-in-args",
            "--token=key-after-equals",
            "DB_PASSWORD=pass-word",
        ],
        "env": {"T": secret, "SHORT": "ab"},
        "url": "https://user-name:pass-phrase@a.example/mcp?apiKey=in-the-query",
        "headers": {"Authorization": "Bearer the-bearer"},
        "primaryApiKey": "of-the-client",
    }
    secrets = secrets_in({"mcpServers": {"a": entry}})
    for shown in (json.dumps(entry), json.dumps(entry, ensure_ascii=False)):
        text = masked(shown, secrets)
        for hidden in (
            "key-in-args", "key-after-equals", "pass-word", "ä", "\\u00e4", '"ab"', "user-name", "pass-phrase",
            "in-the-query", "the-bearer", "of-the-client",
        ):  # fmt: skip
            assert hidden not in text, hidden
        assert '"npx"' in text and '"pkg"' in text and MASK in text


def test_placeholders_and_ordinary_words_stay() -> None:
    entry = {
        "command": "x",
        "args": ["--verbose", "y"],
        "tools": [],
        "env": {"A": "${TOKEN}", "B": "$B", "C": "{env:C}"},
    }
    assert secrets_in(entry) == frozenset()


def test_files_that_cannot_be_read_have_no_secrets() -> None:
    assert secrets_of([("a.json", b"{"), ("b.toml", b"\xff"), ("c.json", None)]) == frozenset()
    assert "secret" in secrets_of([("b.toml", b'[mcp_servers.a.env]\nT = "secret"\n')])
