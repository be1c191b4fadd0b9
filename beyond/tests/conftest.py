"""One thread for all of beyond's tests: more are slower on tensors so small."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
