"""The agent in editors that speak the Agent Client Protocol: `lmtb agent acp`."""
