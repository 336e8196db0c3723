"""One workspace's server: its launch, its instance, its health, its supervision."""
