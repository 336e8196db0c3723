"""The verb client, whose commands change the configuration files of coding agents."""
