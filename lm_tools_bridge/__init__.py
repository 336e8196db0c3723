"""What stands beside the programs `manager` and `workspace_server`: shared parts, and features.

Other programs may import `lm_tools_bridge.agent.tool_service`; everything else is internal and changes.
"""
