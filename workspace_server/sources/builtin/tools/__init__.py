"""The built-in tools, one file each: `TOOL` is what is listed, `call` is what runs."""
