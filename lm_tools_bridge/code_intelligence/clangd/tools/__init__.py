"""The tools `lm_clangd_*`, one module for each or for two alike."""
