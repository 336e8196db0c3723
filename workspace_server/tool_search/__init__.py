"""The two meta-tools: finding tools by words, and calling one that was found."""
