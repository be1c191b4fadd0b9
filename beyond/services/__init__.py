"""GRPO as services on Monarch: python -m beyond.services_run.

Read in this order:

    controller     the loops: which service is asked for what, and when
    actors         generator, reward, reference and trainer, each in its own processes
    real           the trainer for a real model, the one of train_hf
    processes      start processes, call them, replace dead ones, stop them
    messages       the messages between services, and the replay buffer
    config         the settings; importing this module does not need Monarch
    vllm           a vLLM server as the generator
    staleness_run  one run of beyond.staleness, in its own process
"""
