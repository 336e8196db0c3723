"""Desktop notifications for what waits for a person."""
