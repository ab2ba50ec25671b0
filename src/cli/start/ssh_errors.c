#include "cli/start/ssh_errors.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/report/write_all.h"
#include "net/driver.h"
#include "tree/display.h"

#define LINE_KEPT 256
#define READ_SIZE 4096
#define HELD_MAX 32
#define DRAIN_MAX (256u * 1024) /* of a far end that goes on writing when we are to end */

enum line_state { LINE_UNDECIDED, LINE_SHOWN, LINE_HIDDEN };

struct ssh_errors {
    int from, stop[2]; /* the pipe's read end; a pipe whose closing ends the thread */
    pthread_t thread;
    bool quiet_mux;
    enum line_state state; /* the thread's own, as the next three */
    char shown_byte;       /* the last one */
    char held[HELD_MAX];   /* an undecided line's bytes */
    size_t held_length;
    pthread_mutex_t lock; /* of what follows */
    char line[LINE_KEPT], last[LINE_KEPT];
    size_t length;
    uint64_t came_ns;
};

/* ---- lines that are nobody's business ---- */

/* Whether `line` begins as one of ssh's complaints about a master connection; undecided while it is
 * shorter than they are. */
static enum line_state judge(const char *line, size_t length)
{
    static const char *const hidden[] = {"ControlSocket ", "mux_client_"};
    enum line_state state = LINE_SHOWN;
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
        size_t whole = strlen(hidden[i]);
        if (memcmp(line, hidden[i], length < whole ? length : whole) != 0)
            continue;
        if (length >= whole)
            return LINE_HIDDEN;
        state = LINE_UNDECIDED;
    }
    return state;
}

/* Adds to `out` what `byte` lets through: itself, or with it what was held. Returns how many. */
static size_t pass(struct ssh_errors *errors, char byte, char *out)
{
    size_t size = 0;
    if (errors->state == LINE_UNDECIDED) {
        errors->held[errors->held_length++] = byte;
        errors->state = judge(errors->held, errors->held_length);
        if (errors->state == LINE_SHOWN) {
            size = errors->held_length;
            memcpy(out, errors->held, size);
        }
    } else if (errors->state == LINE_SHOWN) {
        out[size++] = byte;
    }
    if (byte == '\n') {
        errors->state = errors->quiet_mux ? LINE_UNDECIDED : LINE_SHOWN;
        errors->held_length = 0;
    }
    return size;
}

/* ---- the last line ---- */

static bool is_blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    }
    return true;
}

static void remember(struct ssh_errors *errors, char byte)
{
    if (byte == '\n') {
        if (!is_blank(errors->line, errors->length)) {
            memcpy(errors->last, errors->line, errors->length);
            errors->last[errors->length] = '\0';
        }
        errors->length = 0;
    } else if (errors->length < LINE_KEPT - 1) {
        errors->line[errors->length++] = byte;
    }
}

static char safe_byte(char byte)
{
    unsigned char value = (unsigned char)byte;
    bool good = (value >= ' ' && value != 0x7f) || byte == '\n' || byte == '\r' || byte == '\t';
    return good ? byte : '?';
}

static void take(struct ssh_errors *errors, const char *bytes, size_t size)
{
    char out[HELD_MAX + READ_SIZE];
    size_t shown = 0;
    pthread_mutex_lock(&errors->lock);
    errors->came_ns = driver_now();
    for (size_t i = 0; i < size; i++) {
        char byte = safe_byte(bytes[i]);
        if (errors->state == LINE_HIDDEN)
            errors->length = 0;
        else
            remember(errors, byte);
        shown += pass(errors, byte, out + shown);
    }
    pthread_mutex_unlock(&errors->lock);
    write_all(STDERR_FILENO, out, shown);
    if (shown > 0)
        errors->shown_byte = out[shown - 1];
}

/* ---- the thread ---- */

static ssize_t take_some(struct ssh_errors *errors)
{
    char bytes[READ_SIZE];
    ssize_t got = read(errors->from, bytes, sizeof(bytes));
    if (got > 0)
        take(errors, bytes, (size_t)got);
    return got;
}

static void drain(struct ssh_errors *errors)
{
    fcntl(errors->from, F_SETFL, O_NONBLOCK);
    size_t taken = 0;
    ssize_t got;
    while (taken < DRAIN_MAX && (got = take_some(errors)) > 0)
        taken += (size_t)got;
}

static void *relay(void *context)
{
    struct ssh_errors *errors = context;
    struct pollfd waits[] = {{.fd = errors->from, .events = POLLIN},
                             {.fd = errors->stop[0], .events = POLLIN}};
    for (;;) {
        if (poll(waits, 2, -1) < 0)
            continue;
        if (waits[1].revents != 0) {
            drain(errors);
            return NULL;
        }
        if (waits[0].revents != 0 && take_some(errors) == 0)
            waits[0].fd = -1; /* its end; now until we are stopped */
    }
}

/* Signals are for the thread that obeys them. */
static bool start_thread(struct ssh_errors *errors)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&errors->thread, NULL, relay, errors) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

struct ssh_errors *ssh_errors_new(bool quiet_mux, int *write_end, struct error *error)
{
    struct ssh_errors *errors = calloc(1, sizeof(*errors));
    int ends[2];
    if (errors == NULL || pipe2(ends, O_CLOEXEC) != 0)
        goto no_pipe;
    if (pipe2(errors->stop, O_CLOEXEC) != 0)
        goto no_stop;
    errors->from = ends[0];
    errors->quiet_mux = quiet_mux;
    errors->shown_byte = '\n';
    errors->state = quiet_mux ? LINE_UNDECIDED : LINE_SHOWN;
    pthread_mutex_init(&errors->lock, NULL);
    if (!start_thread(errors))
        goto no_thread;
    *write_end = ends[1];
    return errors;
no_thread:
    pthread_mutex_destroy(&errors->lock);
    close(errors->stop[0]);
    close(errors->stop[1]);
no_stop:
    close(ends[0]);
    close(ends[1]);
no_pipe:
    free(errors);
    error_set(error, ERROR_MEMORY, "cannot make a pipe for what ssh says");
    return NULL;
}

void ssh_errors_free(struct ssh_errors *errors)
{
    if (errors == NULL)
        return;
    close(errors->stop[1]);
    pthread_join(errors->thread, NULL);
    if (errors->shown_byte != '\n') /* our own lines begin at the left */
        write_all(STDERR_FILENO, "\n", 1);
    close(errors->stop[0]);
    close(errors->from);
    pthread_mutex_destroy(&errors->lock);
    free(errors);
}

/* ---- what came ---- */

static void give(char *text, size_t capacity, const char *line, size_t length)
{
    while (length > 0 && is_blank(line + length - 1, 1))
        length--;
    display_bytes(text, capacity, line, length);
}

char *ssh_errors_last(struct ssh_errors *errors, char *text, size_t capacity)
{
    text[0] = '\0';
    if (errors == NULL)
        return text;
    pthread_mutex_lock(&errors->lock);
    if (!is_blank(errors->line, errors->length))
        give(text, capacity, errors->line, errors->length);
    else
        give(text, capacity, errors->last, strlen(errors->last));
    pthread_mutex_unlock(&errors->lock);
    return text;
}

char *ssh_errors_unfinished(struct ssh_errors *errors, char *text, size_t capacity,
                            uint64_t *silent_ns)
{
    text[0] = '\0';
    if (errors == NULL)
        return text;
    pthread_mutex_lock(&errors->lock);
    give(text, capacity, errors->line, errors->length);
    *silent_ns = driver_now() - errors->came_ns;
    pthread_mutex_unlock(&errors->lock);
    return text;
}
