"""What other libraries call our settings: one table, for messages and for beyond/README.md.

    python -m beyond.foreign        print the table of beyond/README.md

Settings are those of train_hf (beyond/config.py) and of its command. Of a name that stands for
the same value, the message gives the flag to type; of one that counts something else, how to
convert. OTHERS are names of TRL and HF that nothing here answers to.
"""

from dataclasses import dataclass

from lab15_run import piped

TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")


@dataclass(frozen=True)
class Name:
    """One line of the table.

    Args:
        theirs: what it is called there.
        whose: TRL, HF, PEFT, torchforge, or lab (this lab's own GRPOConfig).
        ours: the setting here; "" where there is none.
        how: how to convert, where ours counts something else; or what there is instead.
    """

    theirs: str
    whose: str
    ours: str = ""
    how: str = ""


TABLE = (
    # the group, the lengths
    Name("num_generations", "TRL", "group_size"),
    Name("n_samples", "torchforge", "group_size"),
    Name("G", "lab", "group_size"),
    Name("max_completion_length", "TRL", "max_new_tokens"),
    Name("max_res_tokens", "torchforge", "max_new_tokens"),
    Name("max_prompt_length", "TRL", "max_prompt_tokens"),
    Name("max_req_tokens", "torchforge", "max_prompt_tokens"),
    Name("seq_len", "torchforge", "max_new_tokens",
         "seq_len is prompt and response together: give seq_len - max_prompt_tokens"),
    Name("stop_strings", "HF", "stop", "one text; several are not possible"),
    # what a step takes
    Name("per_device_train_batch_size", "HF", "prompts_per_step",
         "it counts responses on one device: prompts_per_step = per_device_train_batch_size x "
         "processes / group_size; micro_batch is what goes through the model at a time"),
    Name("per_device_batch_size", "HF", "prompts_per_step",
         "it counts responses on one device: multiply by the processes, divide by group_size"),
    Name("generation_batch_size", "TRL", "prompts_per_step",
         "it counts responses: divide by group_size"),
    Name("batch_size", "torchforge", "prompts_per_step"),
    Name("local_batch_size", "torchforge", "prompts_per_step",
         "it counts responses on one device: multiply by the processes, divide by group_size"),
    Name("prompts_per_iter", "lab", "prompts_per_step"),
    Name("steps_per_generation", "TRL", "inner_steps",
         "TRL cuts a sampling into so many steps; here inner_steps steps are made on all of it"),
    Name("num_iterations", "TRL", "inner_steps"),
    Name("iters", "lab", "max_steps", "multiply by inner_steps: optimizer steps are counted"),
    Name("steps", "torchforge", "max_steps"),
    # the loss
    Name("beta", "TRL", "kl_beta"),
    Name("epsilon", "TRL", "clip_epsilon"),
    Name("clip_eps", "lab", "clip_epsilon"),
    Name("epsilon_high", "TRL", "clip_high"),
    Name("delta", "TRL", "loss", "--loss two_sided bounds the ratio from both sides"),
    Name("loss_type", "TRL", "loss"),
    Name("importance_sampling_level", "TRL", "loss", "for sequence: --loss gspo"),
    Name("scale_rewards", "TRL", "scale_std",
         "group: true; none: false; batch: --adv batch_std"),
    Name("use_bias_correction_kl", "TRL", "kl", "for true: --loss grpo --kl k3_is"),
    Name("reward_funcs", "TRL", "reward", "several with weights: --reward exact=1,think=0.5"),
    Name("reward_weights", "TRL", "reward", "with the names: --reward exact=1,think=0.5"),
    Name("vllm_importance_sampling_correction", "TRL", "",
         "beyond.services_run has --correction tis"),
    # optimization
    Name("lr", "lab", "learning_rate"),
    Name("lr_scheduler_type", "HF", "schedule"),
    Name("lr_schedule", "HF", "schedule"),
    Name("warmup_ratio", "HF", "warmup_steps", "multiply by the optimizer steps"),
    Name("max_norm", "torchforge", "max_grad_norm"),
    Name("optim", "HF", "", "the optimizer is AdamW; learning_rate and weight_decay can be set"),
    Name("shuffle_dataset", "TRL", "shuffle"),
    Name("data_seed", "HF", "seed", "one seed for sampling and order"),
    # memory and machines
    Name("dtype", "torchforge", "bf16", "bfloat16: --bf16; float32: --no-bf16; weights that are "
         "trained stay float32"),
    Name("torch_dtype", "HF", "bf16", "bfloat16: --bf16; weights that are trained stay float32"),
    Name("fp16", "HF", "bf16", "float16 is not offered; bfloat16 is"),
    Name("activation_checkpoint", "torchforge", "gradient_checkpointing"),
    Name("activation_checkpointing", "HF", "gradient_checkpointing"),
    Name("auto_find_batch_size", "HF", "micro_batch", "set it by hand"),
    Name("use_cpu", "HF", "device", "--device cpu"),
    Name("no_cuda", "HF", "device", "--device cpu"),
    Name("with_gpus", "torchforge", "device", "true: --device cuda; false: --device cpu"),
    Name("fsdp", "HF", "parallel", "torchrun --nproc-per-node N and --parallel fsdp"),
    Name("deepspeed", "HF", "parallel", "there is fsdp: torchrun and --parallel fsdp"),
    Name("data_parallel_shard_degree", "torchforge", "parallel",
         "torchrun --nproc-per-node N and --parallel fsdp"),
    Name("data_parallel_replicate_degree", "torchforge", "parallel",
         "torchrun --nproc-per-node N and --parallel ddp"),
    Name("tensor_parallel_degree", "torchforge", "parallel",
         "torchrun --nproc-per-node N and --parallel tp"),
    Name("pipeline_parallel_degree", "torchforge", "", "there is no pipeline parallelism here"),
    Name("context_parallel_degree", "torchforge", "", "there is no context parallelism here"),
    Name("expert_parallel_degree", "torchforge", "", "there is no expert parallelism here"),
    Name("procs", "torchforge", "", "train_hf is one program: torchrun --nproc-per-node N; "
         "beyond.services_run has roles with procs"),
    Name("num_replicas", "torchforge", "", "beyond.services_run has roles with replicas"),
    Name("off_by_n", "torchforge", "", "beyond.services_run has --max-staleness"),
    Name("use_vllm", "TRL", "", "beyond.services_run has --vllm URL"),
    # adapters
    Name("use_peft", "TRL", "lora_rank", "give a rank: --lora-rank 16"),
    Name("lora_r", "TRL", "lora_rank"),
    Name("r", "PEFT", "lora_rank"),
    Name("lora_target_modules", "TRL", "lora_targets", "with commas: --lora-targets q_proj,v_proj"),
    Name("target_modules", "PEFT", "lora_targets", "with commas: --lora-targets q_proj,v_proj"),
    # model, data, what is kept
    Name("model_name_or_path", "HF", "model"),
    Name("pretrained", "HF", "model"),
    Name("hf_assets_path", "torchforge", "model"),
    Name("dataset_name", "TRL", "data", "gsm8k, or a JSONL or parquet file"),
    Name("train_file", "HF", "data"),
    Name("validation_file", "HF", "eval_data"),
    Name("dataset_train_split", "TRL", "data", "a file with the rows of that split"),
    Name("dataset_test_split", "TRL", "eval_data", "a file with the rows of that split"),
    Name("max_train_samples", "HF", "max_samples"),
    Name("max_eval_samples", "HF", "eval_samples"),
    Name("per_device_eval_batch_size", "HF", "eval_samples",
         "an evaluation goes 64 prompts at a time; eval_samples is how many there are"),
    Name("eval_strategy", "HF", "eval_steps", "no or epoch: 0, at the end only; steps: the number"),
    Name("eval_every", "lab", "eval_steps", "multiply by inner_steps: optimizer steps are counted"),
    Name("eval_n", "lab", "eval_samples"),
    Name("save_strategy", "HF", "save_steps", "no: 0; steps: the number"),
    Name("interval", "torchforge", "save_steps"),
    Name("resume_from_checkpoint", "HF", "resume", "the newest of output_dir: --resume"),
    Name("report_to", "HF", "use_wandb", "--use-wandb, --use-trackio or --tensorboard"),
    Name("run_name", "HF", "wandb_run_name"),
    Name("project", "HF", "wandb_project"),
    Name("logging_dir", "HF", "output_dir", "--tensorboard writes to output_dir/tensorboard"),
    Name("num_completions_to_print", "TRL", "log_completions"),
    # sampling: what is sampled from is what is scored
    Name("top_p", "TRL", "", "sampling is from the whole softmax, which is what is scored"),
    Name("top_k", "TRL", "", "sampling is from the whole softmax, which is what is scored"),
    Name("min_p", "TRL", "", "sampling is from the whole softmax, which is what is scored"),
    Name("repetition_penalty", "TRL", "",
         "sampling is from the whole softmax, which is what is scored"),
    Name("disable_dropout", "TRL", "", "dropout of the model is always off"),
)
NAMES = {name.theirs: name for name in TABLE}

# Names of TRL 1.16, transformers 5.24 and peft 0.21 without a counterpart here.
OTHERS = frozenset("""
    accelerator_config activation_checkpointing_kwargs adam_beta1 adam_beta2 adam_epsilon
    attn_implementation average_tokens_across_devices batch_eval_metrics bf16_full_eval
    bnb_4bit_quant_storage bnb_4bit_quant_type cache_implementation cast_lm_head_to_fp32
    chat_template_kwargs dataloader_drop_last dataloader_in_order
    dataloader_multiprocessing_context dataloader_num_workers dataloader_persistent_workers
    dataloader_pin_memory dataloader_prefetch_factor dataset_config dataset_streaming ddp_backend
    ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph ddp_timeout
    debug disable_tqdm do_eval do_predict do_train ds3_gather_for_generation enable_jit_checkpoint
    entropy_coef_delta entropy_coef_max entropy_coef_min entropy_target eval_accumulation_steps
    eval_delay eval_do_concat_batches eval_on_start eval_use_gather_object fp16_full_eval
    fsdp_config full_determinism generation_kwargs gradient_checkpointing_kwargs greater_is_better
    hub_always_push hub_model_id hub_private_repo hub_revision hub_strategy hub_token
    ignore_bias_buffers ignore_data_skip include_for_metrics include_num_input_tokens_seen
    label_names label_smoothing_factor length_column_name liger_kernel_config
    load_best_model_at_end load_in_4bit load_in_8bit local_rank log_completions_hub_repo log_level
    log_level_replica log_multimodal log_on_each_node log_unique_prompts logging_first_step
    logging_nan_inf_filter logging_strategy lora_modules_to_save lora_target_parameters
    lora_task_type lr_scheduler_kwargs mask_truncated_completions max_tool_calling_iterations
    metric_for_best_model model_init_kwargs model_revision multi_objective_aggregation
    neftune_noise_alpha num_generations_eval off_policy_mask_threshold optim_args
    optim_target_modules pad_to_multiple_of parallelism_config prediction_loss_only push_to_hub
    ref_model_mixup_alpha ref_model_sync_steps remove_unused_columns
    restore_callback_states_from_checkpoint reward_model_name_or_path router_aux_loss_coef
    sapo_temperature_neg sapo_temperature_pos save_on_each_node save_only_model
    skip_memory_metrics sync_ref_model tf32 top_entropy_quantile torch_compile
    torch_compile_backend torch_compile_mode torch_empty_cache_steps trackio_bucket_id
    trackio_space_id trackio_static_space_id train_sampling_strategy
    transformers_continuous_batching_config trust_remote_code use_adaptive_entropy
    use_bnb_nested_quant use_cache use_dora use_liger_kernel use_rslora
    use_transformers_continuous_batching use_transformers_paged vespo_k_neg vespo_k_pos
    vespo_lambda_neg vespo_lambda_pos vllm_enable_sleep_mode vllm_gpu_memory_utilization
    vllm_group_port vllm_importance_sampling_cap vllm_importance_sampling_clip_max
    vllm_importance_sampling_clip_min vllm_importance_sampling_mode vllm_max_model_length vllm_mode
    vllm_model_impl vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout
    vllm_structured_outputs_regex vllm_tensor_parallel_size
""".split())


# Arguments of TRL's and HF's trainers: what to give to our GRPOTrainer instead.
ARGUMENTS = {
    "reward_funcs": "reward_fn, one or a list of rewards or of (reward, weight)",
    "args": "config, a GRPOConfig of beyond", "processing_class": "tokenizer",
    "reward_weights": "reward_fn, a list of (reward, weight)",
    "train_dataset": "the argument of train(rows)",
    "optimizers": "learning_rate and weight_decay of the config: the optimizer is AdamW",
    "rollout_func": "callbacks, which are called at every rollout",
}


def flag(setting: str, value: str | None = None) -> str:
    """Return the flag of a setting: --group-size 8, --bf16, --no-bf16."""
    words = setting.replace("_", "-")
    low = str(value).lower()
    if setting in SWITCHES and low in (*TRUE, *FALSE):
        return f"--{words}" if low in TRUE else f"--no-{words}"
    return f"--{words}" + (f" {value}" if value not in (None, "") else "")


SWITCHES = ("bf16", "gradient_checkpointing", "scale_std", "shuffle", "tensorboard", "use_trackio",
            "use_wandb")


def answer(name: str, value: str | None = None) -> str | None:
    """Return what a name of another library is called here, in one line; None: no such name.

    Args:
        name: as it was typed, with or without sections before it.
        value: what it was to be, for the flag; None: unknown.
    """
    last = name.removeprefix("--").split(".")[-1].replace("-", "_")
    found = NAMES.get(last)
    if found is None:
        return f"{last}: nothing here does what it does in TRL or HF" if last in OTHERS else None
    if not found.ours:
        return f"{last}: there is no such setting; {found.how}"
    text = f"{last}: here it is {found.ours}; "
    return text + (found.how or f"type {flag(found.ours, value)}")


def table() -> str:
    """Return the table of beyond/README.md."""
    lines = ["| theirs | of | here | where the value differs |", "|---|---|---|---|"]
    lines += [f"| `{n.theirs}` | {n.whose} | {f'`{n.ours}`' if n.ours else 'none'} | {n.how} |"
              for n in TABLE]
    return "\n".join(lines)


if __name__ == "__main__":
    piped(lambda: print(table()))
