"""Changes and inspects JSON as bytes, without re-serialising it. Pure."""
