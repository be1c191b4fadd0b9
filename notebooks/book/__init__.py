"""The book: chapter, notebooks and figures as web pages that need no network."""
