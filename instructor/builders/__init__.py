"""What instructor.build makes, one module each."""
