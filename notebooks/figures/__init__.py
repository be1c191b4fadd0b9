"""The pictures of the chapter: one script each, drawn from results that are kept as JSON."""
