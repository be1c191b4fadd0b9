"""The nbgrader course: its folder's template, its notebook's source, and the whole cycle."""
