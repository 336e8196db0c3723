"""Other proxies: their commands, their calls, and the report of missing ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from scripts.benchmarks.load.wrk import ID
from scripts.benchmarks.other_proxies.installing import commands
from scripts.benchmarks.other_proxies.peer import PEERS, SERVER, RestCall
from scripts.benchmarks.other_proxies.peers import OURS, figures, text
from scripts.benchmarks.results.rounds import Measured

ONE = Measured(
    cpu=10,
    alone=10,
    rate=1200,
    p50=1,
    p99=2,
    refused=0,
    busy=1,
    load=0.1,
    backend=0.2,
    others=0,
    size=500,
    rss=40,
)


def test_every_proxy_serves_the_same_server_on_the_port_it_is_given(tmp_path: Path) -> None:
    for peer in PEERS:
        command = " ".join([*peer.command(tmp_path, 4711), *(peer.files or {}).values()])
        assert SERVER[-1] in command
        assert "4711" in command


def test_packages_go_into_their_folder_and_run_no_scripts(tmp_path: Path) -> None:
    for peer in PEERS:
        install = commands(peer, tmp_path)
        assert all(any(str(tmp_path) in word for word in one) for one in install)
        assert peer.registry == "pypi" or "--ignore-scripts" in install[0]


def test_a_call_by_rest_counts_as_well() -> None:
    assert RestCall("legacy", "echo").body.count(ID) == 1


def test_the_stdio_server_answers_requests_only() -> None:
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "echo"}},
        {"jsonrpc": "2.0", "id": 9, "result": {}},
    ]
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in messages)
    done = subprocess.run(
        [sys.executable, *SERVER[1:]], input=lines, capture_output=True, check=True, timeout=30
    )
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert first["result"]["protocolVersion"] == "2025-11-25"
    assert (second["id"], len(second["result"]["content"][0]["text"])) == ("a", 200)


def test_the_best_proxy_counts_and_missing_ones_are_named() -> None:
    found = {
        16: {
            OURS: ONE,
            "slow": Measured(**{**vars(ONE), "rate": 10}),
            "fast": Measured(**{**vars(ONE), "rate": 100}),
            "odd, by REST": Measured(**{**vars(ONE), "rate": 120}),
        }
    }
    assert figures(found, ["slow", "fast"]) == {"peers": 12, "peers mcp": 12}
    assert figures(found, ["slow", "fast", "odd, by REST"]) == {"peers": 10, "peers mcp": 12}
    assert figures(found, ["odd, by REST"]) == {"peers": 10}
    assert figures(found, []) == {}
    assert "Not measured: gone (npm is not installed)." in text(found, {"gone": "npm is not installed"})
