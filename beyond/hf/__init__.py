"""Your functions on a HuggingFace model: python -m beyond.train_hf.

Read in this order:

    training    what all trainers share: folder, record and checkpoints of a run
    trainer     GRPOTrainer: the loop, from a batch of prompts to the update
    preflight   checks made before torch is imported and a model is loaded
    backend     tinylm's seven names for a HuggingFace model
    policy      a model with its tokenizer, and what sampling and scoring must agree on
    batches     the order of the prompts, and how a batch is split into micro-batches
    whole_step  your own grpo_step, whole, instead of the trainer's
    supervised  the trainer behind beyond.sft: the loss covers only the response
    schedule    the learning rate over the steps
    metrics     the measurements of a step
"""
