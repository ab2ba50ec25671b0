#include "cli/start/ssh_process.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CAUGHT "SigCgt:"

bool ssh_process_has_session(pid_t ssh)
{
    char path[64], line[256];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%ld/status", (long)ssh);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, CAUGHT, strlen(CAUGHT)) == 0)
            found = (strtoull(line + strlen(CAUGHT), NULL, 16) >> (SIGTERM - 1) & 1) != 0;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

bool ssh_process_asks(pid_t ssh)
{
    char path[64], target[sizeof("/dev/tty") + 1];
    snprintf(path, sizeof(path), "/proc/%ld/fd", (long)ssh);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return false;
    bool found = false;
    const struct dirent *entry;
    while (!found && (entry = readdir(folder)) != NULL) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target));
        found = length == (ssize_t)strlen("/dev/tty") && memcmp(target, "/dev/tty", 8) == 0;
    }
    closedir(folder);
    return found;
}
