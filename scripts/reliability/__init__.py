"""Shows which faults and attacks are held, by tests of the suite and by runs of its own."""
