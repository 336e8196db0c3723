"""Verbs about who may do what: approvals of calls, tokens, browsers that may act."""
