"""Two short programs to start from; both run as they are."""
