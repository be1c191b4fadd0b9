"""Train one policy with several processes.

Read in this order:

    ranks   who is who, sums and gathering, DDP and FSDP2
    tensor  tensor parallelism: each process holds a part of every layer
"""
