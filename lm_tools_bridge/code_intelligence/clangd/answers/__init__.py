"""What the tools make of the answers of clangd: places, names of symbols, texts, results and failures."""
