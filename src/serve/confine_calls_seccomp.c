#include "serve/confine.h"

#include <errno.h>
#include <linux/fs.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* What a server and its sessions call, on amd64 and arm64, with room for what other versions of the
 * C library call for the same purpose. Names that a processor lacks are skipped. */
static const char *const allowed[] = {
    /* memory, threads, time */
    "brk",
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "madvise",
    "membarrier",
    "futex",
    "set_robust_list",
    "get_robust_list",
    "rseq",
    "exit",
    "exit_group",
    "wait4",
    "waitid",
    "gettid",
    "getpid",
    "getppid",
    "sched_yield",
    "sched_getaffinity",
    "sched_setaffinity",
    "nanosleep",
    "clock_nanosleep",
    "clock_gettime",
    "clock_getres",
    "gettimeofday",
    "time",
    "getrandom",
    "restart_syscall",
    "getrusage",
    "sysinfo",
    "uname",
    "set_tid_address",
    "arch_prctl",
    "prctl",
    "getrlimit",
    "setrlimit",
    "prlimit64",
    "ioprio_set",
    "umask",
    /* signals */
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigtimedwait",
    "sigaltstack",
    "kill",
    "tgkill",
    "rt_sigqueueinfo", /* asks a session of ours to hand a half-written file over */
    "setpgid",
    "signalfd4",
    /* waiting */
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "eventfd2",
    "pipe2",
    "timerfd_create",
    "timerfd_settime",
    /* descriptors */
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "fcntl",
    "lseek",
    "flock",
    /* files */
    "open",
    "openat",
    "openat2",
    "stat",
    "lstat",
    "fstat",
    "newfstatat",
    "statx",
    "statfs",
    "fstatfs",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "getdents64",
    "getcwd",
    "mkdir",
    "mkdirat",
    "rmdir",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "mknod",
    "mknodat",
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "lchown",
    "fchown",
    "fchownat",
    "utimensat",
    "truncate",
    "ftruncate",
    "fallocate",
    "fadvise64",
    "readahead",
    "sync_file_range",
    "fsync",
    "fdatasync",
    "syncfs",
    "copy_file_range",
    "sendfile",
    "getxattr",
    "lgetxattr",
    "fgetxattr",
    "listxattr",
    "llistxattr",
    "flistxattr",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    /* network; socket(), like clone() and ioctl(), has rules of its own */
    "bind",
    "listen",
    "accept4",
    "connect",
    "getsockname",
    "getpeername",
    "setsockopt",
    "getsockopt",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "shutdown",
    "socketpair",
    /* who we are */
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getgroups",
    "getresuid",
    "getresgid",
    "capget",
};

/* No bug of ours leads to these. */
static const char *const deadly[] = {
    "execve",
    "execveat",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "pidfd_getfd",
    "kcmp",
    "memfd_secret",
    "userfaultfd",
    "perf_event_open",
    "bpf",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "move_mount",
    "open_tree",
    "fsopen",
    "setns",
    "unshare",
    "swapon",
    "swapoff",
    "reboot",
    "add_key",
    "request_key",
    "keyctl",
    "personality",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "name_to_handle_at",
    "open_by_handle_at",
    "quotactl",
    "syslog",
    "acct",
    "setuid",
    "setgid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setgroups",
    "capset",
    "settimeofday",
    "clock_settime",
    "iopl",
    "ioperm",
    "modify_ldt",
    "vhangup",
    "sethostname",
    "setdomainname",
};
static bool add(scmp_filter_ctx filter, uint32_t action, const char *name, int *failed)
{
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR || number < 0)
        return true;
    *failed = seccomp_rule_add(filter, action, number, 0);
    return *failed == 0;
}

struct condition {
    const char *name;
    unsigned argument;
    uint64_t mask, value;
};

/* Calls of which only a part is needed. Of clone3 a filter sees nothing: the C library takes ENOSYS
 * and then calls clone. TIOCSTI, among other things, is missing from ioctl. */
#define ALL_BITS UINT64_MAX
#define NEW_SPACES                                                                                 \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |     \
     CLONE_NEWCGROUP)
static const struct condition conditions[] = {
    {"clone", 0, NEW_SPACES, 0},
    {"socket", 0, ALL_BITS, AF_INET},
    {"socket", 0, ALL_BITS, AF_INET6},
    {"socket", 0, ALL_BITS, AF_UNIX},
    {"ioctl", 1, UINT32_MAX, FICLONERANGE},
    {"ioctl", 1, UINT32_MAX, FIONREAD},
    {"ioctl", 1, UINT32_MAX, FIONBIO},
    {"ioctl", 1, UINT32_MAX, TCGETS},
    {"ioctl", 1, UINT32_MAX, TIOCGWINSZ},
};

static bool add_conditions(scmp_filter_ctx filter, int *failed)
{
    for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
        const struct condition *condition = &conditions[i];
        const struct scmp_arg_cmp argument =
            SCMP_CMP64(condition->argument, SCMP_CMP_MASKED_EQ, condition->mask, condition->value);
        *failed = seccomp_rule_add_array(
            filter, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(condition->name), 1, &argument);
        if (*failed != 0)
            return false;
    }
    return true;
}

static bool fill(scmp_filter_ctx filter, int *failed)
{
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        if (!add(filter, SCMP_ACT_ALLOW, allowed[i], failed))
            return false;
    }
    for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++) {
        if (!add(filter, SCMP_ACT_KILL_PROCESS, deadly[i], failed))
            return false;
    }
    return add_conditions(filter, failed);
}

/* A kernel without seccomp, or a sandbox around us that has it forbidden. */
static bool is_absent(int failed)
{
    return failed == -ENOSYS || failed == -EOPNOTSUPP || failed == -EINVAL;
}

bool confine_calls(struct confine_done *done, struct error *error)
{
    int failed = 0;
    done->calls = false;
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
        return true;
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (filter == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for a list of system calls");
    /* The kernel's own errors, to tell one that has no seccomp. */
    bool filled = (failed = seccomp_attr_set(filter, SCMP_FLTATR_API_SYSRAWRC, 1)) == 0 &&
                  fill(filter, &failed);
    if (filled)
        failed = seccomp_load(filter);
    seccomp_release(filter);
    if (filled && is_absent(failed))
        return true;
    if (failed != 0)
        return error_set_errno(error, -failed, "the list of system calls does not hold");
    done->calls = true;
    return true;
}
