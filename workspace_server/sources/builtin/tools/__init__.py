"""The built-in tools, one file each: `TOOL` is the definition, `call` runs it."""
