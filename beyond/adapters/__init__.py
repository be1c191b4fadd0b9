"""Your loss in other libraries' trainers.

To be read in this order:

    trl   TRL's GRPOTrainer updates with it
    verl  a function with the arguments that verl calls, around one of ours
"""
