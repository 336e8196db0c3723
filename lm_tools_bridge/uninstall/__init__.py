"""The verb uninstall: removes everything that this program made, and says what remains."""
