"""`lmtb remote`: hosts whose projects this manager reaches, and the program that serves there."""
