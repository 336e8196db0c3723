"""Bearer tokens: who calls from where the user of a connection cannot be seen, and what they may do."""
