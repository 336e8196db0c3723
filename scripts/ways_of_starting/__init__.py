"""Tells which project answers real agent programs, however they are started and whatever entry they have."""
