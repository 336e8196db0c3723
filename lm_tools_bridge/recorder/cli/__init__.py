"""`lmtb calls`: shows, exports and counts recorded calls."""
