"""Where lab15_grpo.py departs from the contract's text: pairs of (ours, the contract's).

White space is collapsed before the two texts are compared. All that follows TAIL is ours.
"""

TAIL = "# ============================================================== given: checks,"

CHECKS = """
    def __post_init__(self):  # a wrong setting is named here, before anything is trained
        for name, value in vars(self).items():
            kind = type(getattr(GRPOConfig, name))
            low = {"G": 2, "iters": 0, "beta": 0, "seed": 0, "scale_std": False}.get(name)
            ok = type(value) is kind or (kind is float and type(value) is int)
            if not ok or not (value > 0 if low is None else value >= low) or value == float("inf"):
                allowed = "above 0" if low is None else f"of {low} or more"
                allowed = "True or False" if kind is bool else f"a finite {kind.__name__} {allowed}"
                raise ValueError(f"GRPOConfig: {name} = {value!r} is not allowed; give {allowed}")
"""

ADDITIONS = [
    # the head of the file
    (" (here: chapter.md)", ""),
    ("from contextlib import contextmanager", ""),
    ('LAB_VERSION = "1.0"', ""),
    # GRPOConfig checks itself
    (CHECKS, ""),
    # train_grpo: another device, saving, a progress bar, a stop at NaN, the measured seconds
    ('verbose=True, device="cpu", out_dir=None):', "verbose=True):"),
    ("(about 13 s)", "(about 5 s)"),
    ("With out_dir the run is saved there as it goes.", ""),
    ("Ctrl-C ends it early and returns as usual.", ""),
    ("policy = load_or_train_sft(sft_path).to(device)", "policy = load_or_train_sft(sft_path)"),
    ("ref = load_or_train_sft(sft_path).to(device)", "ref = load_or_train_sft(sft_path)"),
    ("with saving(cfg, policy, hist, out_dir) as (save, tqdm):", ""),
    (
        "tqdm(range(1, cfg.iters + 1), leave=False, disable=None if verbose else True):",
        "range(1, cfg.iters + 1):",
    ),
    ("stop_if_nan(s, policy, cfg, it)", ""),
    ('save() if verbose: tqdm.write(f"iter', 'if verbose: print(f"iter'),
]
