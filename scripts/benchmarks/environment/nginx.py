"""Runs nginx as the reverse proxy to compare with, and as a fast workspace server.

The workspace server (`answers.lua`) uses so little time that it does not limit the measured proxies.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.benchmarks.cases import SIZES
from scripts.benchmarks.environment.processes import running, wait_for

LUA = Path(__file__).with_name("answers.lua")
NONCE = "bench"
"""The nonce by which the manager verifies the registered server."""

MAIN = """
daemon off; master_process off; worker_processes 1; user {user}; pid {folder}/{name}.pid;
error_log {folder}/{name}.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_max_body_size 0; client_body_buffer_size 2m; client_header_buffer_size 4k;
  keepalive_requests 100000000;
  client_body_temp_path {folder}/{name}-body; proxy_temp_path {folder}/{name}-proxy;
  keepalive_timeout 600; tcp_nodelay on;
  {http}
}}
"""
SERVER = """
  init_by_lua_block {{ require "resty.core"; results = {{ {results} }}; answers = dofile("{lua}") }}
  server {{
    listen 127.0.0.1:{port};
    location = /mcp/health {{ default_type application/json; return 200 '{health}'; }}
    location = /static {{ return 200 'ok'; }}
    location = /mcp {{ content_by_lua_block {{ answers.answer() }} }}
  }}
"""
MODULES = ("ndk_http_module.so", "ngx_http_lua_module.so")
"""The modules for the workspace server, from the Debian package `libnginx-mod-http-lua`."""
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
    """Run the workspace server until the block ends; yield its pid and port."""
    port = free_port()
    health = json.dumps({"ok": True, "nonce": NONCE})
    results = ", ".join(f"{{ {json.dumps(name)}, {size} }}" for name, size in SIZES.items())
    http = SERVER.format(port=port, lua=LUA, results=results, health=health)
    with _nginx(folder, "server", http, port, on, modules=MODULES) as pid:
        yield pid, port


@contextlib.contextmanager
def proxy(folder: Path, backend: int, on: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Run a reverse proxy with a connection pool until the block ends; yield its pid and port."""
    port = free_port()
    with _nginx(folder, "proxy", PROXY.format(port=port, backend=backend), port, on) as pid:
        yield pid, port


@contextlib.contextmanager
def _nginx(
    folder: Path, name: str, http: str, port: int, on: frozenset[int], *, modules: Sequence[str] = ()
) -> Iterator[int]:
    user = "root" if os.geteuid() == 0 else os.environ.get("USER", "nobody")
    config = folder / f"{name}.conf"
    loaded = "".join(f"load_module {modules_path()}/{one};\n" for one in modules)
    config.write_text(loaded + MAIN.format(folder=folder, name=name, http=http, user=user))
    with running(path(), "-p", str(folder), "-c", str(config), on=on, log=folder / f"{name}.out") as one:
        wait_for(lambda: reachable(port) or one.poll() is not None, what=f"nginx as {name}")
        if one.poll() is not None:
            raise RuntimeError((folder / f"{name}.out").read_text())
        yield one.pid


def path() -> str:
    """The path of nginx, which Debian installs outside a user's PATH; empty if it is not installed."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin") or ""


def version() -> str:
    """The version of nginx."""
    text = subprocess.run([path(), "-v"], capture_output=True, text=True, check=True).stderr
    return text.rpartition("/")[2].strip()


def modules_path() -> str:
    """The folder of the modules of nginx."""
    text = subprocess.run([path(), "-V"], capture_output=True, text=True, check=True).stderr
    found = re.search(r"--modules-path=(\S+)", text)
    return found[1] if found else ""


def has_modules() -> bool:
    """Whether nginx and the modules for the workspace server are installed."""
    return bool(path()) and all(Path(modules_path(), one).exists() for one in MODULES)


def free_port() -> int:
    """A port that is free at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def reachable(port: int) -> bool:
    """Whether a program listens on the port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
