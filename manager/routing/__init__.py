"""Where it is decided. Pure: no clock, no I/O, no randomness; facts come in as arguments."""
