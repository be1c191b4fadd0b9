"""Your loss in other libraries' trainers.

Read in this order:

    trl   makes TRL's GRPOTrainer use it for its updates
    verl  wraps it in a function with the signature that verl calls
"""
