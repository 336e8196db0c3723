"""`lmtb replay`: sends recorded calls again, and compares the results structurally."""
