"""Gets diagnostics from a language server, published or asked for, and says how complete they are."""
