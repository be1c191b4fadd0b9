"""Namespaces inside of the sandbox: what bubblewrap does, for a process that has torch loaded.

A child forked for one task gets its own processes, IPC and mounts: an empty scratch folder, an
empty /dev/shm, and no /proc, so that neither its parent nor another task's child can be seen.
"""

import ctypes
import functools
import os
import platform

NEWNS, NEWIPC, NEWUSER, NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
NOSUID, NODEV, NOEXEC, RDONLY = 2, 4, 8, 1
PRIVATE, RECURSIVE = 1 << 18, 1 << 14
NO_NEW_PRIVS, CAPBSET_DROP = 38, 24
KEYCTL, JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219}, 1

libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def _mount(where, flags, options):
    args = (b"tmpfs", where.encode(), b"tmpfs", flags, options.encode())
    _check(libc.mount(*args), f"mount {where}")


@functools.cache
def statm():
    """Return the line with this process's size; needs /proc."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return file.read()


@functools.cache
def limits():
    """Return the limits that sandbox.py has set: {word: number}."""
    words = os.environ["LAB15_LIMITS"].split(",")
    return {name: int(value) for name, value in (word.split("=") for word in words)}


def enter():
    """Go into new namespaces; the next fork is the first process in them."""
    uid, gid = os.getuid(), os.getgid()
    _check(libc.unshare(NEWUSER | NEWNS | NEWIPC | NEWPID), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    _check(libc.mount(None, b"/", None, PRIVATE | RECURSIVE, None), "mount /")


def settle():
    """Replace what could be shared with others, then give up every right."""
    size, entries = limits()["scratch"], limits()["entries"]
    plain = NOSUID | NODEV
    # Without nr_inodes empty files may fill half of the machine's memory.
    _mount(os.environ["TMPDIR"], plain, f"size={size},nr_inodes={entries},mode=1777")
    _mount("/dev/shm", plain | NOEXEC, "size=65536,nr_inodes=256,mode=1777")
    statm()
    _mount("/proc", plain | NOEXEC | RDONLY, "size=4096")
    # A keyring of its own: the grader's may hold keys, and would outlive the task.
    if (call := KEYCTL.get(platform.machine())) is not None:
        libc.syscall(call, JOIN_SESSION_KEYRING, None)
    for cap in range(64):
        libc.prctl(CAPBSET_DROP, cap, 0, 0, 0)
    _check(libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _check(libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    os.chdir(os.environ["TMPDIR"])
