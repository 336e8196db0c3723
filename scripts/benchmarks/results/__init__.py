"""Results: medians of rounds, tables, charts, comparison with targets, and the documents they go into."""
