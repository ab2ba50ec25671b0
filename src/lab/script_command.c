/* petrel-lab matrix, compare, report, pack, fit: started here, written in Python (lab/). */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/command.h"

#define ARGUMENTS_MAX 256

/* Where the scripts are: told by the environment, in the source tree of this build, or installed.
 */
static const char *find_scripts(void)
{
    const char *told = getenv("PETREL_LAB_SCRIPTS");
    if (told != NULL && *told != '\0')
        return told;
    return access(LAB_SOURCE_FOLDER "/__main__.py", R_OK) == 0 ? LAB_SOURCE_FOLDER
                                                               : LAB_INSTALLED_FOLDER;
}

int command_script(int count, char **arguments)
{
    char *words[ARGUMENTS_MAX + 3] = {(char *)"python3", (char *)(uintptr_t)find_scripts()};
    char self[4096];
    struct error error = {0};
    if (count > ARGUMENTS_MAX) {
        error_set(&error, ERROR_USAGE, "more than %d words", ARGUMENTS_MAX);
        return command_fail(&error);
    }
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        self[length] = '\0';
        (void)setenv("PETREL_LAB", self, 1);
    }
    (void)setenv("PYTHONDONTWRITEBYTECODE", "1", 0);
    memcpy(words + 2, arguments, (size_t)count * sizeof *words);
    execvp(words[0], words);
    if (errno == ENOENT)
        error_set(&error, ERROR_USAGE, "'%s' needs python3, which is not here", arguments[0]);
    else
        error_set_errno(&error, errno, "cannot run python3");
    return command_fail(&error);
}
