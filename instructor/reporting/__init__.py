"""Parts of instructor.report: read results, leave names out, find similar files, make the page."""
