#include "serve/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of the kernel's interface, in numbers of our own: the headers of a build may be older than the
 * kernel that it runs on. */
enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_DIR = 1 << 4,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_CHAR = 1 << 6,
    FS_MAKE_DIR = 1 << 7,
    FS_MAKE_REG = 1 << 8,
    FS_MAKE_SOCK = 1 << 9,
    FS_MAKE_FIFO = 1 << 10,
    FS_MAKE_BLOCK = 1 << 11,
    FS_MAKE_SYM = 1 << 12,
    FS_REFER = 1 << 13,     /* to other directories; from version 2 */
    FS_TRUNCATE = 1 << 14,  /* from version 3 */
    FS_IOCTL_DEV = 1 << 15, /* from version 5 */
};
enum { NET_BIND_TCP = 1 << 0, NET_CONNECT_TCP = 1 << 1 };       /* from version 4 */
enum { SCOPE_ABSTRACT_SOCKET = 1 << 0, SCOPE_SIGNAL = 1 << 1 }; /* from version 6 */

struct ruleset {
    uint64_t files, network, scopes;
};

struct __attribute__((packed)) path_beneath {
    uint64_t allowed;
    int32_t parent;
};

enum { CREATE_VERSION = 1, RULE_PATH_BENEATH = 1 };

static int version(void)
{
    long found = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_VERSION);
    return found > 0 ? (int)found : 0;
}

/* All that this kernel can refuse. The kernel takes a shorter struct from older programs. */
static struct ruleset everything(int landlock, size_t *size)
{
    struct ruleset all = {.files = (FS_MAKE_SYM << 1) - 1};
    *size = sizeof(all.files);
    if (landlock >= 2)
        all.files |= FS_REFER;
    if (landlock >= 3)
        all.files |= FS_TRUNCATE;
    if (landlock >= 5)
        all.files |= FS_IOCTL_DEV;
    if (landlock >= 4) {
        all.network = NET_BIND_TCP | NET_CONNECT_TCP;
        *size += sizeof(all.network);
    }
    if (landlock >= 6) {
        all.scopes = SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL;
        *size += sizeof(all.scopes);
    }
    return all;
}

static uint64_t rights_of(enum confine_right right)
{
    const uint64_t reading = FS_READ_FILE | FS_READ_DIR;
    switch (right) {
    case CONFINE_READ:
        return reading;
    case CONFINE_WRITE:
        return reading | FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR |
               FS_MAKE_REG | FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER | FS_TRUNCATE;
    case CONFINE_REMOVE:
        return FS_REMOVE_FILE;
    }
    return 0;
}

static bool add_rule(int ruleset, const struct confine_rule *rule, uint64_t handled,
                     struct error *error)
{
    /* What can be said of a file that is no directory. */
    const uint64_t of_files = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE;
    struct stat status;
    int fd = open(rule->path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        error_set_errno(error, errno, "%s, to which petrel is to be confined", rule->path);
        if (fd >= 0)
            close(fd);
        return false;
    }
    struct path_beneath beneath = {.allowed = rights_of(rule->right) & handled, .parent = fd};
    if (!S_ISDIR(status.st_mode))
        beneath.allowed &= of_files;
    bool good = syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &beneath, 0) == 0 ||
                error_set_errno(error, errno, "Landlock takes no rule for %s", rule->path);
    close(fd);
    return good;
}

bool confine_files(const struct confine_rule *rules, size_t count, struct confine_done *done,
                   struct error *error)
{
    size_t size;
    int landlock = version();
    struct ruleset all = everything(landlock, &size);
    done->landlock = 0;
    if (landlock == 0)
        return true;
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
    if (ruleset < 0)
        return error_set_errno(error, errno, "Landlock makes no set of rules");
    bool good = true;
    for (size_t i = 0; good && i < count; i++)
        good = add_rule(ruleset, &rules[i], all.files, error);
    if (good && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                 syscall(SYS_landlock_restrict_self, ruleset, 0) != 0))
        good = error_set_errno(error, errno, "Landlock does not confine this process");
    close(ruleset);
    if (good)
        done->landlock = landlock;
    return good;
}
