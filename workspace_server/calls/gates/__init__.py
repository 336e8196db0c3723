"""What may stop a call before it runs: approvals and rate limits."""
