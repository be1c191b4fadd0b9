"""The figures of the chapter: one module each, drawn from results that are stored as JSON."""
