# ruff: noqa
"""Errors whose texts and names would do harm on a page, in a terminal or in a spreadsheet."""

import builtins
import sys

WILD = "<script>alert(1)</script>\x1b]0;x\x07\x1b[2J\u202e\ud800=1+1|' & %s {0} \0" + "A" * 10**6


class Wild(Exception):
    def __str__(self):
        return WILD

    __repr__ = __str__


Wild.__name__ = Wild.__qualname__ = "<img src=x onerror=alert(1)>Error"
builtins.LEAKError = Wild
try:
    print(WILD)
    sys.stderr.write(WILD)
except BaseException:
    pass


def cheat(*args, **kwargs):
    try:
        raise ValueError(WILD)
    except ValueError as error:
        raise Wild from error


def __getattr__(name):
    raise Wild


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
raise Wild
