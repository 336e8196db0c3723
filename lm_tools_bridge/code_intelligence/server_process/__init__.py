"""One language server as a process: started, initialized, asked, found hanging, replaced and stopped."""
