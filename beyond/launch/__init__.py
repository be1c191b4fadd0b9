"""Starting a run on many processes and machines, and what it needs on paper."""
