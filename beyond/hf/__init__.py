"""Your functions on a HuggingFace model: python -m beyond.train_hf.

To be read in this order:

    trainer     GRPOTrainer: the loop, from a batch of prompts to the update
    config      its settings, their flags and their YAML file
    backend     the seven names of tinylm for a HuggingFace model
    policy      a model with its tokenizer, and what sampling and scoring must agree on
    batches     which prompts come next, and how samples in use are cut
    whole_step  your whole grpo_step in the place of the trainer's own
    schedule    the learning rate over the steps
    metrics     what is measured in a step
"""
