"""Where lab15_grpo.py departs from the contract's text: pairs of (ours, the contract's).

White space is collapsed before the two texts are compared. What is long stands in lab15_run.py.
"""

CHECKS = """
    def __post_init__(self):
        lab15_run.check_settings(self)  # a wrong one is named before anything is trained
"""

START = """
if __name__ == "__main__":
    lab15_run.main(globals())
"""

ADDITIONS = [
    # the head of the file
    (" (here: chapter.md)", ""),
    (
        "import lab15_run # isort: skip (first: Ctrl-C while PyTorch loads is a normal end, too)",
        "",
    ),
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
    ("with lab15_run.Run(globals(), cfg, policy, hist, out_dir) as run:", ""),
    ("run.progress(range(1, cfg.iters + 1), verbose):", "range(1, cfg.iters + 1):"),
    ("run.check(s, it)", ""),
    ('run.save() if verbose: run.print(f"iter', 'if verbose: print(f"iter'),
    # the command
    (START, ""),
]
