"""Caches how a `tools/call` was routed, so that a similar call skips parsing and workspace resolution."""
