"""The built-in tools as a source."""
