"""GRPO as services on Monarch: python -m beyond.services_run.

To be read in this order:

    controller     the loops: who is asked for what, and when
    actors         generator, reward, reference, trainer: each in processes of its own
    real           the trainer of a real model: train_hf's
    processes      these processes: spawned, asked, found dead, replaced, stopped
    messages       what they send each other, and the buffer
    config         the settings; importing them needs no Monarch
    vllm           a vLLM server in the generator's place
    staleness_run  one run of beyond.staleness, in a process of its own
"""
