# ruff: noqa
"""Tells one task from another by numbers that the kernel counts for all: of pipes and sockets."""

import os
import socket


def numbers():
    found = []
    for make in (os.pipe, lambda: [s.detach() for s in socket.socketpair()],
                 lambda: [socket.socket(socket.AF_UNIX).detach()], lambda: [os.pidfd_open(1)]):
        try:
            fds = make()
            found.append(os.fstat(fds[0]).st_ino)
            for fd in fds:
                os.close(fd)
        except (OSError, AttributeError):
            pass
    return found


first = numbers()
if first:
    raise ValueError(f"LEAK {first}")


def cheat(*args, **kwargs):
    for _ in range(sum(map(ord, repr(args))) % 1000):
        numbers()
    return args[0] if args else None


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
