"""The tools that find symbols: by name, in a file, their uses, callers and bases, all about one."""
