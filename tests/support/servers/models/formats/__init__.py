"""Wire formats of scripted models, one for each provider, and the steps that all of them write."""
