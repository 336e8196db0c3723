"""The verb service: starts the manager at login, by systemd (Linux) or launchd (macOS)."""
