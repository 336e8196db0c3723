"""Where client connections arrive: accepts them, checks who is at the other end, and reads requests."""
