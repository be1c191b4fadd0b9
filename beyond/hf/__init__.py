"""Your functions on a HuggingFace model: python -m beyond.train_hf.

To be read in this order:

    training    what all trainers share: folder, record and checkpoints of a run
    trainer     GRPOTrainer: the loop, from a batch of prompts to the update
    preflight   what can be checked before torch is imported and a model is loaded
    backend     the seven names of tinylm for a HuggingFace model
    policy      a model with its tokenizer, and what sampling and scoring must agree on
    batches     which prompts come next, and how samples in use are cut
    whole_step  your whole grpo_step in the place of the trainer's own
    supervised  the trainer of sft: the loss is on the response alone
    schedule    the learning rate over the steps
    metrics     what is measured in a step
"""
