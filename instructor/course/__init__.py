"""The nbgrader course: the template of its folder, its notebook's text, and the whole cycle."""
