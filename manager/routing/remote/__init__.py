"""Projects on other hosts: their addresses, how each kind of host is reached, and what it says. Pure."""
