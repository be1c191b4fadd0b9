"""Tools for teachers: grading, reports, checks of the lab. Students do not need this folder."""
