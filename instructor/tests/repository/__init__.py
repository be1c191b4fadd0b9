"""Tests of the repository: contract, imports, packages, READMEs."""
