"""Start a run on many processes or machines, and estimate what it will need."""
