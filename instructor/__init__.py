"""For teachers: checks of the lab itself. Students do not need this folder."""
