"""The command line of the agent: `lmtb agent`, which runs `python -m lm_tools_bridge.agent`."""
