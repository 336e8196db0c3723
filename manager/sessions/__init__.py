"""State of clients with sessions (MCP ≤ 2025-11-25): streams, replay, subscriptions, input requests."""
