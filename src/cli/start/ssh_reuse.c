#include "cli/start/ssh_reuse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "crypto/aead.h"

#define FOLDER "petrel-ssh"
#define PERSIST "-oControlPersist=60"

/* ---- where ---- */

/* Others must not be able to put something else in its place. */
static bool is_own(const char *path, mode_t forbidden)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
           (status.st_mode & forbidden) == 0;
}

/* What ssh would not expand, split or unquote. */
static bool is_plain(const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-";
    return path[0] == '/' && path[strspn(path, plain)] == '\0';
}

/* `base`/petrel-ssh/`name`, if that is short enough and the directory is there and private. */
static bool place(struct ssh_reuse *reuse, const char *base, const char *name)
{
    char folder[SSH_REUSE_PATH_MAX];
    int length = snprintf(folder, sizeof(folder), "%s/" FOLDER, base);
    if (length < 0 || (size_t)length + 1 + strlen(name) >= sizeof(reuse->path) || !is_plain(base) ||
        !is_own(base, S_IWGRP | S_IWOTH))
        return false;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return false;
    if (!is_own(folder, S_IRWXG | S_IRWXO))
        return false;
    memcpy(reuse->path, folder, (size_t)length);
    reuse->path[length] = '/';
    memcpy(reuse->path + length + 1, name, strlen(name) + 1);
    return true;
}

static bool place_in_cache(struct ssh_reuse *reuse, const char *name)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL && cache[0] != '\0')
        return place(reuse, cache, name);
    char path[SSH_REUSE_PATH_MAX];
    if (home == NULL || snprintf(path, sizeof(path), "%s/.cache", home) >= (int)sizeof(path))
        return false;
    mkdir(path, 0700); /* if it cannot be made, that shows in the next line */
    return place(reuse, path, name);
}

/* ---- whether ---- */

static bool names_control(const char *option)
{
    static const char *const names[] = {"controlpath", "controlmaster", "controlpersist"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncasecmp(option, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

/* ssh -G does not show what was switched off: -o ControlPath=none is as nothing to it. */
static bool is_users_business(const struct ssh_options *options, const struct ssh_facts *facts)
{
    if (facts->shares)
        return true;
    for (size_t i = 1; i < options->passed.count; i++) {
        const char *value = options->passed.values[i];
        if (strcmp(options->passed.values[i - 1], "-o") == 0 &&
            names_control(value + strspn(value, " \t")))
            return true;
    }
    return false;
}

/* Two commands share a master when ssh would do the same for both. */
static bool name_socket(const struct ssh_options *options, const struct ssh_facts *facts,
                        char name[17])
{
    uint8_t both[2 * SHA256_SIZE], hash[SHA256_SIZE];
    const char *program = options->program != NULL ? options->program : "ssh";
    memcpy(both, facts->hash, SHA256_SIZE);
    if (!sha256(program, strlen(program), both + SHA256_SIZE) || !sha256(both, sizeof(both), hash))
        return false;
    for (unsigned i = 0; i < 8; i++)
        snprintf(name + 2 * i, 3, "%02x", hash[i]);
    return true;
}

/* ---- its state ---- */

/* The process that listens on the socket: 0 if nobody does, -1 if nobody can tell. */
static pid_t listener_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    pid_t pid = 0;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
        struct ucred credentials;
        socklen_t size = sizeof(credentials);
        pid = -1;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0)
            pid = credentials.pid;
    } else if (errno != ECONNREFUSED && errno != ENOENT) {
        pid = -1;
    }
    close(fd);
    return pid;
}

void ssh_reuse_plan(struct ssh_reuse *reuse, const struct ssh_options *options,
                    const struct ssh_facts *facts, bool creates)
{
    memset(reuse, 0, sizeof(*reuse));
    char name[17];
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (options->no_reuse || options->command != NULL || !facts->known ||
        is_users_business(options, facts) || !name_socket(options, facts, name))
        return;
    if (!(runtime != NULL && place(reuse, runtime, name)) && !place_in_cache(reuse, name))
        return;
    reuse->was_up = listener_of(reuse->path) != 0;
    if (!reuse->was_up)
        unlink(reuse->path);
    if (!reuse->was_up && !creates)
        return;
    reuse->on = true;
    reuse->jumped = facts->jumped;
    snprintf(reuse->path_option, sizeof(reuse->path_option), "-oControlPath=%s", reuse->path);
    reuse->words[0] = reuse->path_option;
    if (creates) {
        reuse->words[1] = "-oControlMaster=auto";
        reuse->words[2] = PERSIST;
    }
}

/* Where the user left the choice to ssh, the same ciphers with AES first: with the processor's help
 * it takes half the time of what OpenSSH puts first for the sake of those without, and a copy that
 * goes through ssh costs little else. */
#define AES_FIRST                                                                                  \
    "-oCiphers=aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,"       \
    "aes128-ctr,aes192-ctr,aes256-ctr"

void ssh_reuse_words(const struct ssh_reuse *reuse, const struct ssh_facts *facts,
                     const char **first)
{
    size_t count = 0;
    for (; reuse->words[count] != NULL; count++)
        first[count] = reuse->words[count];
    if (facts->plain_ciphers && aead_has_aes_hardware())
        first[count++] = AES_FIRST;
    count += ssh_facts_undo(facts, first + count);
    first[count] = NULL;
}

bool ssh_reuse_logged_in(const struct ssh_reuse *reuse, pid_t ssh)
{
    return reuse->on && (reuse->was_up || listener_of(reuse->path) == ssh);
}

void ssh_reuse_forget(struct ssh_reuse *reuse)
{
    if (reuse->on)
        unlink(reuse->path);
    reuse->was_up = false;
}
