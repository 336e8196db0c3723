"""A workspace for the tasks-* scenarios of the conformance suite: script tools, and a server with tasks.

The tools have the names that the suite calls. Tools that ask back or fail as a server does are in `task_server.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

from support.projects.script_tools import write_tool
from support.servers.sdk_servers.third_party import stdio_command

SERVER = Path(__file__).with_name("task_server.py")
SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-status-notifications",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)
TOOLS = {
    "greet": (
        "import lmtb_tool\nlmtb_tool.return_string(f\"Hello, {lmtb_tool.get_string('name')}!\")\n",
        '[parameters.name]\ntype = "string"\n',
    ),
    "slow_compute": (
        "import time\nimport lmtb_tool\ntime.sleep(lmtb_tool.get_float('seconds'))\nprint('computed')\n",
        'task = true\ntimeout_s = 120\n[parameters.seconds]\ntype = "number"\n[parameters.label]\ntype = "string"\n',
    ),
    "failing_job": (
        "import time\nimport lmtb_tool\ntime.sleep(1)\nlmtb_tool.return_error('the job failed')\n",
        'task = "required"\n',
    ),
}


def write_task_tools(root: Path, era: str = "legacy") -> None:
    """Configure the workspace at `root`; its server speaks `era`. Nothing of it is trusted yet."""
    own = root / ".lm-tools-bridge"
    for name, (script, toml) in TOOLS.items():
        write_tool(own / "tools", name, script, toml)
    command = json.dumps(stdio_command(f"--{era}", program=SERVER))
    entry = f'[[mcp.stdio_servers]]\nnamespace = ""\ncommand = {command}\ntask = true\n'
    (own / "workspace.toml").write_text(f"[builtin]\nenabled = false\n\n{entry}")
