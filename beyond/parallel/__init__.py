"""Several processes that train one policy.

To be read in this order:

    ranks   who is who, sums and gathering, DDP and FSDP2
    tensor  tensor parallelism: each process has a part of every layer
"""
