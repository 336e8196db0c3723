"""What a script tool is: its folder, manifest, parameters and files."""
