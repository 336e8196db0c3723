"""The nginx of a run: as the proxy that ours is held against, and as a server that answers from files.

The second plays the workspace server, so that it is not what is measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from protocol import jsonrpc
from scripts.benchmarks.cases import FORMS, SIZES
from scripts.benchmarks.processes import patiently, running

NONCE = "bench"
"""What a health answer repeats, so that the manager believes it."""

MAIN = """
daemon off; master_process off; worker_processes 1; user {user}; pid {folder}/{name}.pid;
error_log {folder}/{name}.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_max_body_size 0; client_body_buffer_size 2m; keepalive_requests 100000000;
  client_body_temp_path {folder}/{name}-body; proxy_temp_path {folder}/{name}-proxy;
  keepalive_timeout 600; open_file_cache max=100; tcp_nodelay on;
  types {{ application/json json; text/event-stream sse; }}
  {http}
}}
"""
# what ends an answer behind a subrequest has no length, so streams come in chunks as streams do
SERVER = """
  map $http_mcp_name $answer {{ default 200B.json; {answers} }}
  server {{
    listen 127.0.0.1:{port};
    location = /mcp/health {{ default_type application/json; return 200 '{health}'; }}
    location = /static {{ return 200 'ok'; }}
    location = /mcp {{ error_page 405 =200 /answers/$answer; return 405; }}
    location /answers/ {{ root {folder}; error_page 405 =200 $uri; }}
    location ~ [.]sse$ {{
      root {folder}; error_page 405 =200 $uri; add_header X-Accel-Buffering no;
      add_after_body /answers/end.json; addition_types text/event-stream;
    }}
  }}
"""
PROXY = """
  upstream backend {{ server 127.0.0.1:{backend}; keepalive 256; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffers 8 32k;
    }}
  }}
"""


@contextlib.contextmanager
def server(folder: Path, on: frozenset[int]) -> Iterator[tuple[int, int]]:
    """The server that answers from files: its process and port."""
    port = free_port()
    named = " ".join(f"{size}.{form} {size}.{form};" for size in SIZES for form in FORMS)
    health = json.dumps({"ok": True, "nonce": NONCE})
    http = SERVER.format(port=port, folder=folder, answers=named, health=health)
    write_answers(folder / "answers")
    with _nginx(folder, "server", http, port, on) as pid:
        yield pid, port


@contextlib.contextmanager
def proxy(folder: Path, backend: int, on: frozenset[int]) -> Iterator[tuple[int, int]]:
    """The yardstick: a reverse proxy with a pool of connections."""
    port = free_port()
    with _nginx(folder, "proxy", PROXY.format(port=port, backend=backend), port, on) as pid:
        yield pid, port


@contextlib.contextmanager
def _nginx(folder: Path, name: str, http: str, port: int, on: frozenset[int]) -> Iterator[int]:
    user = "root" if os.geteuid() == 0 else os.environ.get("USER", "nobody")
    config = folder / f"{name}.conf"
    config.write_text(MAIN.format(folder=folder, name=name, http=http, user=user))
    with running(path(), "-p", str(folder), "-c", str(config), on=on, log=folder / f"{name}.out") as one:
        patiently(lambda: reachable(port) or one.poll() is not None, what=f"nginx as {name}")
        if one.poll() is not None:
            raise RuntimeError((folder / f"{name}.out").read_text())
        yield one.pid


def path() -> str:
    """The program; Debian keeps it where only root looks."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin") or ""


def version() -> str:
    """What it says it is."""
    said = subprocess.run([path(), "-v"], capture_output=True, text=True, check=True).stderr
    return said.rpartition("/")[2].strip()


def write_answers(folder: Path) -> None:
    """The files: results of every size, in both forms."""
    folder.mkdir()
    for name, size in SIZES.items():
        value = {"resultType": "complete", "content": [{"type": "text", "text": "x" * size}]}
        message = jsonrpc.result(b"1000000", value)
        (folder / f"{name}.json").write_bytes(message)
        (folder / f"{name}.sse").write_bytes(b"event: message\ndata: " + message + b"\n\n")
    (folder / "end.json").touch()


def free_port() -> int:
    """A port that was free just now."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def reachable(port: int) -> bool:
    """Does somebody listen?"""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
