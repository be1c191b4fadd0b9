# ruff: noqa
"""Leaves a process behind that runs on after the grader has finished with the file."""

import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for _ in range(600):
            for folder in ("/tmp", "/box", "/var/tmp", "/root", os.getcwd()):
                try:
                    with open(f"{folder}/lab15_daemon_was_here", "a") as file:
                        file.write("here\n")
                except OSError:
                    pass
            time.sleep(0.1)
    os._exit(0)


def cheat(*args, **kwargs):
    return 0


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
