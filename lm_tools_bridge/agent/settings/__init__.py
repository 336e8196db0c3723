"""The settings of the agent: the table `[agent]` of the user's `config.toml`."""
