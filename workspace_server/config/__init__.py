"""What the user and the project configured: read, merged, written."""
