# ruff: noqa
"""Looks for other students and other tasks through locks, events, the cache and the load."""

import ctypes
import fcntl
import os

libc = ctypes.CDLL(None, use_errno=True)
seen = []
with open(os.__file__, "rb") as file:
    for command in (fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_SH | fcntl.LOCK_NB):
        try:
            fcntl.flock(file, command)
            seen.append("flock")
        except OSError:
            pass
    try:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        seen.append("lockf")
    except OSError:
        pass
for name, call in (
    ("inotify", lambda: libc.inotify_init()), ("load", os.getloadavg),
    ("fadvise", lambda: os.posix_fadvise(0, 0, 0, os.POSIX_FADV_DONTNEED)),
):
    try:
        if call() not in (-1, None):
            seen.append(name)
    except OSError:
        pass
if seen:
    raise ValueError(f"LEAK {seen}")


def cheat(*args, **kwargs):
    return args[0] if args else None


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
