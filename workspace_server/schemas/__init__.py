"""JSON Schemas of tools: what they may be, and arguments held to them."""
