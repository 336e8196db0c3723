"""Kills the processes that a workspace server left behind when it crashed or was killed.

Every process that a workspace server starts has a mark in its environment. Descendants inherit the mark, even
in another session or process group, or without a parent. The mark begins with the instance id.
"""

from __future__ import annotations

from lm_tools_bridge.machine.processes.process_sweep import Judge, Verdict, environment, find_all, kill_all
from lm_tools_bridge.protocol import names


def kill_leftovers(instance: str) -> int:
    """Kill every process with this instance's mark and return how many there were. Blocks.

    Never this process: it has the mark if a process of a previous workspace server started the manager.
    """
    return len(kill_all(_judge(instance)).killed)


def find_leftovers(instance: str) -> list[int]:
    """The pids of this user's processes with the instance's mark, except this process."""
    return find_all(_judge(instance))


def _judge(instance: str) -> Judge:
    mark = f"{names.CHILD_VARIABLE}={instance}.".encode()

    def judge(pid: int) -> Verdict:
        environ = environment(pid)
        if environ is None:
            return "not ours"
        return "ours" if environ.startswith(mark) or b"\0" + mark in environ else "not ours"

    return judge
