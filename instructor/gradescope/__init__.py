"""The files for Gradescope's machines: setup.sh, run_autograder, and the program it calls."""
