"""The parts of instructor.report: reading results, leaving names out, similar files, the page."""
