"""List where lab15_grpo.py departs from the contract's text, as pairs (ours, the contract's).

White space is collapsed before the two texts are compared. Longer additions are in lab15_run.py.
"""

CHECKS = """
    def __post_init__(self):
        lab15_run.check_settings(self)  # ValueError: which one, and its range
"""

START = """
if __name__ == "__main__":
    lab15_run.main(globals())
"""

ADDITIONS = [
    # the head of the file
    (" (here: chapter.md)", ""),
    (
        "import lab15_run # isort: skip (first: then Ctrl-C works while PyTorch loads)",
        "",
    ),
    ('LAB_VERSION = "1.0"', ""),
    # the docstring has four steps, and names out without saying where it comes from
    ('follow the four steps in the docstring; out is groups["out"], mask its mask.',
     "follow the five steps in the docstring."),
    # GRPOConfig checks itself
    (CHECKS, ""),
    # train_grpo: another device, saving, a progress bar, a stop at NaN, the measured seconds
    ('verbose=True, device="cpu", out_dir=None):', "verbose=True):"),
    ("(about 7 s)", "(about 5 s)"),
    ("With out_dir, every evaluation also saves the run there.", ""),
    ("Ctrl-C ends training early; the policy and the history so far are returned.", ""),
    ("policy = load_or_train_sft(sft_path).to(device)", "policy = load_or_train_sft(sft_path)"),
    ("ref = load_or_train_sft(sft_path).to(device)", "ref = load_or_train_sft(sft_path)"),
    ("with lab15_run.Run(globals(), cfg, policy, hist, out_dir) as run:", ""),
    ("run.progress(range(1, cfg.iters + 1), verbose):", "range(1, cfg.iters + 1):"),
    ("run.check(s, it)", ""),
    ('run.save() if verbose: run.print(f"iter', 'if verbose: print(f"iter'),
    # the command
    (START, ""),
]
