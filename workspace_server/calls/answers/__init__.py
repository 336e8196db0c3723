"""What the caller of a tool gets: outcomes, completed results, answers about unknown names."""
