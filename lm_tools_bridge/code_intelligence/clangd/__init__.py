"""The tools `lm_clangd_*`, as the original extension has them, on the workspace's one clangd."""
