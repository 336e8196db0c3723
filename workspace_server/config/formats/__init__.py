"""The file formats of configuration: TOML, JSON of other clients, editor settings."""
