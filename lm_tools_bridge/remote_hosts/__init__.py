"""Projects on other hosts: the line to each host, and what stands for the server of each project."""
