"""Model servers: one adapter for each dialect, and the HTTP shell that all of them share."""
