"""In the sandbox: refuse system calls that no submission needs, so that less can be attacked.

The filter is made by libseccomp (Debian, Ubuntu: libseccomp2, which apt itself needs), called
through ctypes: its Python bindings are built for the system's Python only. Without the library
there is no filter, and the grader reports that when it starts.
"""

import ctypes
import functools

ALLOW, MASKED_EQUAL = 0x7FFF0000, 7
EPERM, ENOSYS = 1, 38
NAMESPACES = 0x7E020080  # all CLONE_NEW... flags

REFUSED = """
acct add_key bpf chroot clock_adjtime clock_settime delete_module fanotify_init finit_module
fsconfig fsmount fsopen fspick init_module io_uring_enter io_uring_register io_uring_setup ioperm
iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie mount mount_setattr move_mount
move_pages name_to_handle_at nfsservctl open_by_handle_at open_tree perf_event_open personality
pidfd_getfd pivot_root process_madvise process_vm_readv process_vm_writev ptrace quotactl
quotactl_fd reboot request_key sethostname setdomainname setns settimeofday swapoff swapon syslog
umount umount2 unshare uselib userfaultfd vhangup vmsplice
""".split()
# Memory that no process's size shows, and the times of /dev/null and the like: these files are the
# machine's own, and what is set there can be read in the next task.
REFUSED += "memfd_create memfd_secret msgget semget shmat shmget".split()
REFUSED += "futimesat utime utimensat utimes".split()
# Channels from one task, or one student, to another: numbers that the kernel counts for all
# (of pipes and sockets), locks and events of files that all can read, the page cache, and
# how busy the machine is. Pipes are also memory that no process's size shows.
REFUSED += "cachestat fadvise64 flock inotify_init inotify_init1 mincore pidfd_open".split()
REFUSED += "pipe pipe2 preadv2 readahead socket socketpair sysinfo".split()
# What writes out all disks of the machine, and what else no program of today needs.
REFUSED += "migrate_pages modify_ldt sync syncfs sysfs ustat".split()
LOCKS = (5, 6, 7, 36, 37, 38)  # F_GETLK, F_SETLK, F_SETLKW and the same of open descriptions


class _Compare(ctypes.Structure):
    _fields_ = [
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    ]


@functools.cache
def library():
    """Return libseccomp, or None where there is none."""
    try:
        lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
        lib.seccomp_init.restype = ctypes.c_void_p
        lib.seccomp_init.argtypes = [ctypes.c_uint32]
        lib.seccomp_load.argtypes = lib.seccomp_release.argtypes = [ctypes.c_void_p]
        lib.seccomp_rule_add_array.argtypes = [
            ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p
        ]
    except (OSError, AttributeError):
        return None
    return lib


def restrict():
    """Refuse the calls of REFUSED, locks of files, and new namespaces, from now on.

    Returns: whether there is a filter now.

    Raises:
        OSError: the library exists, but the kernel rejects its filter.
    """
    lib = library()
    if lib is None:
        return False
    context = lib.seccomp_init(ALLOW)

    def refuse(name, error, *compare):
        number = lib.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # this machine and this library know it
            array = (_Compare * 1)(*compare)
            action = 0x00050000 | error
            lib.seccomp_rule_add_array(context, action, number, len(compare), array)

    for name in REFUSED:
        refuse(name, EPERM)
    for command in LOCKS:
        refuse("fcntl", EPERM, _Compare(1, MASKED_EQUAL, 0xFFFFFFFF, command))
    for bit in range(32):
        if NAMESPACES >> bit & 1:
            refuse("clone", EPERM, _Compare(0, MASKED_EQUAL, 1 << bit, 1 << bit))
    refuse("clone3", ENOSYS)  # its flags cannot be seen; the C library then takes clone
    result = lib.seccomp_load(context)
    lib.seccomp_release(context)
    if result != 0:
        raise OSError(-result, "the system call filter is refused")
    return True
