"""Records calls as they end: chosen if they are too many, made into rows, written in batches by a thread."""
