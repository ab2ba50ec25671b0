/* petrel serve: stands on a port and serves those whose keys are authorised. This process only
 * looks at first packets and connections; each client gets a process of its own. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/options/settings.h"
#include "cli/report/exit_code.h"
#include "cli/server/serve_confine.h"
#include "cli/server/serve_door.h"
#include "keys/key_file.h"
#include "keys/known_hosts.h"

#define PORT_TRIES 40u /* a server before us may still be ending: four seconds */
#define PORT_NAP_NS (100 * NS_PER_MS)
#define CLIENTS_DEFAULT 64u
#define MEMORY_DEFAULT (UINT64_C(512) << 20)
#define MEMORY_LEAST (UINT64_C(128) << 20)
#define FILES_DEFAULT 256u
#define FILES_LEAST 64u

struct serve_options {
    const char *listen, *identity, *authorized_keys, *control, *metrics;
    char *keys_path; /* of authorized_keys, wherever it is */
    uint64_t limit_bps;
    struct process_limits session;
    uint16_t port;
    unsigned clients;
    struct serve_roots roots;
    bool quiet, help;
};

static bool parse_port(void *target, const char *value, struct error *error)
{
    struct serve_options *options = target;
    uint64_t port;
    if (!parse_unsigned(value, UINT16_MAX, &port, NULL) || port == 0)
        return error_set(error, ERROR_USAGE, "--port takes a port from 1 to 65535, not %s", value);
    options->port = (uint16_t)port;
    return true;
}

static bool parse_root(void *target, const char *value, struct error *error)
{
    struct serve_options *options = target;
    return serve_roots_add(&options->roots, value, error);
}

static bool parse_clients(void *target, const char *value, struct error *error)
{
    struct serve_options *options = target;
    uint64_t clients;
    if (!parse_unsigned(value, SERVE_CLIENTS_MAX, &clients, NULL) || clients == 0)
        return error_set(error, ERROR_USAGE, "--max-clients takes a number from 1 to %u, not %s",
                         SERVE_CLIENTS_MAX, value);
    options->clients = (unsigned)clients;
    return true;
}

static bool parse_memory(void *target, const char *value, struct error *error)
{
    struct serve_options *options = target;
    uint64_t size;
    if (!parse_size(value, &size, NULL) || size < MEMORY_LEAST)
        return error_set(error, ERROR_USAGE,
                         "--client-memory takes a size from 128M on, such as 512M, not %s", value);
    options->session.memory_bytes = size;
    return true;
}

static bool parse_files(void *target, const char *value, struct error *error)
{
    struct serve_options *options = target;
    uint64_t files;
    if (!parse_unsigned(value, 1000000, &files, NULL) || files < FILES_LEAST)
        return error_set(error, ERROR_USAGE, "--client-files takes a number from %u on, not %s",
                         FILES_LEAST, value);
    options->session.files = files;
    return true;
}

#define FIELD(name) offsetof(struct serve_options, name)

static const struct option table[] = {
    {0, "root", OPTION_MANY, 0, "NAME=DIR[:ro|:wo]",
     "offer DIR as petrel://host/NAME; :ro to be read only, :wo to be written only", parse_root},
    {0, "port", OPTION_CUSTOM, 0, "N", "UDP and TCP port (4717)", parse_port},
    {0, "listen", OPTION_TEXT, FIELD(listen), "ADDRESS", "only at this address of ours", NULL},
    {0, "identity", OPTION_TEXT, FIELD(identity), "FILE",
     "our key (~/.config/petrel/identity, see petrel key)", NULL},
    {0, "authorized-keys", OPTION_TEXT, FIELD(authorized_keys), "FILE",
     "who may come (~/.config/petrel/authorized_keys)", NULL},
    {0, "max-clients", OPTION_CUSTOM, 0, "N", "at most so many at once (64)", parse_clients},
    {0, "client-memory", OPTION_CUSTOM, 0, "SIZE", "memory of each client's process (512M)",
     parse_memory},
    {0, "client-files", OPTION_CUSTOM, 0, "N", "files that it has open at once (256)", parse_files},
    {0, "limit", OPTION_RATE, FIELD(limit_bps), "RATE", "of all clients together, each way", NULL},
    {0, "control", OPTION_TEXT, FIELD(control), "FILE",
     "the socket for petrel status, limit and pause; none: there is none", NULL},
    {0, "metrics", OPTION_TEXT, FIELD(metrics), "ADDR:PORT", "serve Prometheus metrics there",
     NULL},
    {'q', "quiet", OPTION_FLAG, FIELD(quiet), NULL, "only errors", NULL},
    {'h', "help", OPTION_ACTION, FIELD(help), NULL, "print this help", NULL},
    {0, NULL, OPTION_FLAG, 0, NULL, NULL, NULL},
};

const struct option *serve_options_table(void)
{
    return table;
}

/* ---- what it needs ---- */

/* A key that was named is there: a slip in its name would make another one, which the server's
 * clients refuse. */
static bool load_identity(const struct serve_options *options, struct serve_setup *setup,
                          struct error *error)
{
    bool made = false;
    if (options->identity != NULL)
        return identity_load(options->identity, &setup->identity, error);
    char *path = identity_default_path(error);
    bool good = path != NULL && identity_load_or_make(path, &setup->identity, &made, error);
    if (good && made)
        fprintf(stderr, "petrel serve: made a key in %s\n", path);
    free(path);
    return good;
}

static bool find_keys(struct serve_options *options, struct error *error)
{
    options->keys_path = options->authorized_keys != NULL
                             ? strdup(options->authorized_keys)
                             : key_file_default("authorized_keys", error);
    return options->keys_path != NULL || error_set(error, ERROR_MEMORY, "no memory for a name");
}

static bool has_root(void *context, const char *name)
{
    return serve_roots_find(context, name) != NULL;
}

/* A key with a root that there is not is a mistake, though a harmless one. */
static void warn_of_roots(const struct authorized_keys *keys, struct serve_roots *roots)
{
    char name[ROOT_NAME_MAX + 1];
    for (size_t i = 0; i < authorized_keys_count(keys); i++) {
        const struct authorized_key *key = authorized_keys_at(keys, i);
        if (authorized_key_unknown_root(key, has_root, roots, name))
            fprintf(stderr,
                    "petrel serve: line %u of authorized_keys names the root %s, which is not "
                    "offered\n",
                    key->line, name);
    }
}

/* The door stands, and nobody can come through it: that is worth a word also to who wants few. */
static void tell_keys(const struct serve_options *options, const struct serve_setup *setup,
                      bool again)
{
    size_t count = authorized_keys_count(setup->keys);
    const char *read_again = again ? "authorized_keys was read again: " : "";
    if (count == 0)
        fprintf(
            stderr,
            "petrel serve: %snobody is authorised, for there is no key in %s; petrel key prints "
            "a client's, and SIGHUP has the file read again\n",
            read_again, options->keys_path);
    else if (again || !options->quiet)
        fprintf(stderr, "petrel serve: %s%zu key%s authorised%s\n", read_again, count,
                count == 1 ? " is" : "s are",
                again ? "; roots and options change by a restart alone" : "");
}

/* ---- signals ---- */

static volatile sig_atomic_t asked_to_stop, asked_to_reload, child_ended;

static void on_signal(int number)
{
    if (number == SIGCHLD)
        child_ended = 1;
    else if (number == SIGHUP)
        asked_to_reload = 1;
    else
        asked_to_stop++;
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
#define SIGNAL_COUNT (sizeof(signals) / sizeof(signals[0]))

/* They come only while we wait: *before is the mask to wait with. */
static void catch_signals(sigset_t *before)
{
    sigset_t blocked;
    struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&action.sa_mask);
    sigemptyset(&blocked);
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        sigaction(signals[i], &action, NULL);
        sigaddset(&blocked, signals[i]);
    }
    sigaction(SIGPIPE, &ignore, NULL);
    sigprocmask(SIG_BLOCK, &blocked, before);
}

/* ---- the run ---- */

static void reload(const struct serve_options *options, struct serve_setup *setup,
                   struct serve_desk *desk)
{
    struct error error = {0};
    struct authorized_keys *keys = authorized_keys_load(options->keys_path, &error);
    asked_to_reload = 0;
    if (keys == NULL) {
        fprintf(stderr, "petrel serve: %s; the keys stay as they were\n", error.text);
        return;
    }
    authorized_keys_free((struct authorized_keys *)(uintptr_t)setup->keys);
    setup->keys = keys;
    warn_of_roots(keys, &setup->roots);
    serve_desk_counts(desk)->reloads++;
    tell_keys(options, setup, true);
}

/* The first signal ends the coming, the second the going on. */
static void obey(struct serve_door *door, int *obeyed)
{
    int asked = asked_to_stop;
    if (asked > 0 && *obeyed == 0) {
        serve_door_shut(door);
        if (serve_door_guests(door) > 0)
            fprintf(stderr,
                    "petrel serve: nobody is let in any more; waiting for %u client%s to end "
                    "(a second signal ends them)\n",
                    serve_door_guests(door), serve_door_guests(door) == 1 ? "" : "s");
    }
    if (asked > 1 && *obeyed < 2)
        serve_door_end_guests(door);
    *obeyed = asked;
}

static void run(const struct serve_options *options, struct serve_setup *setup,
                struct serve_desk *desk, struct serve_door *door, const sigset_t *mask)
{
    int obeyed = 0;
    while (obeyed == 0 || serve_door_guests(door) > 0) {
        serve_door_wait(door, mask);
        if (child_ended) {
            child_ended = 0;
            serve_door_reap(door);
        }
        if (asked_to_reload)
            reload(options, setup, desk);
        obey(door, &obeyed);
    }
}

static struct serve_door *open_door(const struct serve_options *options, struct serve_setup *setup,
                                    struct serve_desk *desk, struct error *error)
{
    const struct timespec nap = {.tv_nsec = PORT_NAP_NS};
    struct serve_door_config config = {.listen = options->listen,
                                       .port = options->port,
                                       .clients = options->clients,
                                       .setup = setup,
                                       .desk = desk};
    for (unsigned i = 0;; i++) {
        struct error cause = {0};
        struct serve_door *door = serve_door_open(&config, &cause);
        if (door != NULL)
            return door;
        if (cause.os_errno != EADDRINUSE || i == PORT_TRIES || asked_to_stop) {
            *error = cause;
            return NULL;
        }
        nanosleep(&nap, NULL);
    }
}

static void greet(const struct serve_options *options, const struct serve_setup *setup,
                  const struct confine_done *done)
{
    char fingerprint[FINGERPRINT_SIZE], confined[SERVE_CONFINE_TEXT];
    if (options->quiet)
        return;
    fprintf(stderr, "petrel serve: listening on UDP and TCP port %u; our key is %s\n",
            options->port, fingerprint_format(fingerprint, setup->identity.key));
    for (size_t i = 0; i < setup->roots.count; i++) {
        const struct serve_root *root = &setup->roots.list[i];
        fprintf(stderr, "petrel serve: %s is %s%s\n", root->name, root->path,
                !root->may_send    ? " (read only)"
                : !root->may_fetch ? " (write only)"
                                   : "");
    }
    fprintf(stderr, "petrel serve: %s\n", serve_confine_describe(confined, done));
}

/* From here on nothing is opened that a client could not ask for; only then a packet is read. */
static bool open_for_business(const struct serve_options *options, struct serve_setup *setup,
                              struct serve_desk *desk, const sigset_t *mask, struct error *error)
{
    struct confine_done done = {0};
    struct serve_door *door = open_door(options, setup, desk, error);
    bool good = door != NULL && serve_confine(&setup->roots, options->keys_path,
                                              serve_desk_control(desk), &done, error);
    if (good) {
        greet(options, setup, &done);
        tell_keys(options, setup, false);
        run(options, setup, desk, door, mask);
    }
    serve_door_close(door);
    return good;
}

static bool serve(struct serve_options *options, struct error *error)
{
    static struct serve_setup setup;
    sigset_t mask;
    setup.roots = options->roots;
    setup.quiet = options->quiet;
    setup.limits = options->session;
    if (setup.roots.count == 0)
        return error_set(error, ERROR_USAGE,
                         "petrel serve needs something to offer: --root NAME=DIR");
    if (!serve_roots_open(&setup.roots, error) || !load_identity(options, &setup, error) ||
        !find_keys(options, error) ||
        (setup.keys = authorized_keys_load(options->keys_path, error)) == NULL)
        return false;
    warn_of_roots(setup.keys, &setup.roots);
    catch_signals(&mask);
    const struct serve_desk_config config = {.control = options->control,
                                             .metrics = options->metrics,
                                             .clients = options->clients,
                                             .limit_bps = options->limit_bps};
    struct serve_desk *desk = serve_desk_open(&config, error);
    bool good = desk != NULL && open_for_business(options, &setup, desk, &mask, error);
    serve_desk_close(desk);
    authorized_keys_free((struct authorized_keys *)(uintptr_t)setup.keys);
    identity_wipe(&setup.identity);
    return good;
}

int command_serve(int argc, char **argv)
{
    struct serve_options options = {.port = PETREL_PORT,
                                    .clients = CLIENTS_DEFAULT,
                                    .session = {MEMORY_DEFAULT, FILES_DEFAULT}};
    struct error error = {0};
    size_t count = 0;
    const char **words = calloc((size_t)argc + 1, sizeof(*words));
    bool good = words != NULL || error_set(&error, ERROR_MEMORY, "no memory");
    good = good && options_parse(table, argc, argv, &options, words, &count, &error);
    if (good && options.help) {
        printf("petrel serve --root NAME=DIR[:ro|:wo]... [OPTION...]\n\nOptions:\n");
        options_print_help(table);
    } else if (good && count > 0) {
        good = error_set(&error, ERROR_USAGE,
                         "petrel serve takes no operand, but %s; a directory is offered by --root "
                         "NAME=DIR",
                         words[0]);
    } else if (good) {
        good = serve(&options, &error);
    }
    free(options.keys_path);
    free(words);
    if (good)
        return EXIT_OK;
    fprintf(stderr, "petrel serve: %s\n", error.text);
    return exit_code_of(error.kind);
}
