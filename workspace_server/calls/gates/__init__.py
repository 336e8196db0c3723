"""Gates that can stop a call before it runs: approvals and rate limits."""
