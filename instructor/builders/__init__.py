"""One module for each thing that instructor.build makes."""
