"""The flight recorder: one record of every call in a database of its own, and queries over these records."""
