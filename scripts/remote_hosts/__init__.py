"""Two hosts on one machine: a demonstration, and a soak that kills each of their parts."""
