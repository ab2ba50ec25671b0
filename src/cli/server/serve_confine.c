#include "cli/server/serve_confine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crypto/primitives.h"

#define RULES_MAX (SERVE_ROOTS_MAX + 3u)

/* The directory that a file is in, on the heap; a file that is replaced is another one. */
static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static const char *spool_directory(void)
{
    const char *folder = getenv("TMPDIR");
    return folder != NULL && folder[0] != '\0' ? folder : "/tmp";
}

static size_t fill(struct confine_rule rules[RULES_MAX], const struct serve_roots *roots,
                   const char *keys, const char *control)
{
    size_t count = 0;
    for (; count < roots->count; count++) {
        const struct serve_root *root = &roots->list[count];
        rules[count] =
            (struct confine_rule){root->path, root->may_send ? CONFINE_WRITE : CONFINE_READ};
    }
    rules[count++] = (struct confine_rule){keys, CONFINE_READ};
    rules[count++] = (struct confine_rule){spool_directory(), CONFINE_WRITE};
    if (control != NULL)
        rules[count++] = (struct confine_rule){control, CONFINE_REMOVE};
    return count;
}

bool serve_confine(const struct serve_roots *roots, const char *keys, const char *control,
                   struct confine_done *done, struct error *error)
{
    struct confine_rule rules[RULES_MAX];
    uint8_t warm[SHA256_SIZE];
    char *keys_in = directory_of(keys);
    char *control_in = control != NULL ? directory_of(control) : NULL;
    bool good = keys_in != NULL && (control == NULL || control_in != NULL);
    if (!good)
        error_set(error, ERROR_MEMORY, "no memory for rules");
    /* OpenSSL reads its configuration when it is first used. */
    good = good && sha256("", 0, warm) && random_bytes(warm, sizeof(warm), error) &&
           confine_files(rules, fill(rules, roots, keys_in, control_in), done, error) &&
           confine_calls(done, error);
    free(keys_in);
    free(control_in);
    return good;
}

char *serve_confine_describe(char text[SERVE_CONFINE_TEXT], const struct confine_done *done)
{
    if (done->landlock > 0 && done->calls)
        snprintf(text, SERVE_CONFINE_TEXT, "confined by Landlock (version %d) and seccomp",
                 done->landlock);
    else if (done->landlock > 0)
        snprintf(text, SERVE_CONFINE_TEXT, "confined by Landlock (version %d), not by seccomp",
                 done->landlock);
    else
        snprintf(text, SERVE_CONFINE_TEXT,
                 "%sthis kernel has no Landlock: give it a user of its own",
                 done->calls ? "confined by seccomp alone; " : "not confined; ");
    return text;
}
