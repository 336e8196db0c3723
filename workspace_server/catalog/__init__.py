"""What can be called right now: sources merged, named, and seen under a configuration."""
