"""Questions about recorded calls: filters and times, single calls, figures of tools, output of servers."""
