"""The official host of MCP Apps, and an app made with the official SDK, as pages for Chromium."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
INSTALL_S = 240.0
"""How long npm may take to install the packages."""


@dataclass(frozen=True)
class AppPages:
    """The HTML of both, each with all that it needs."""

    host: Path
    app: Path


def build(folder: Path) -> AppPages:
    """Install the packages into a folder, and make the pages there."""
    for name in ("package.json", "host.js", "app.js"):
        (folder / name).write_text((HERE / name).read_text())
    install = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(install, cwd=folder, check=True, timeout=INSTALL_S)
    return AppPages(_page(folder, "host"), _page(folder, "app"))


def _page(folder: Path, name: str) -> Path:
    bundle = ["node_modules/.bin/esbuild", f"{name}.js", "--bundle", "--format=esm", "--charset=utf8"]
    done = subprocess.run(bundle, cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    script = done.stdout.replace("</script", "<\\/script")
    page = folder / f"{name}.html"
    head = '<!doctype html><meta charset="utf-8"><p id="answers"></p>'
    page.write_text(f'{head}<script type="module">\n{script}\n</script>')
    return page
