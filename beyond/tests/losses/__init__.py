"""Tests of the losses: values, gradients, properties, and the records of other libraries."""
