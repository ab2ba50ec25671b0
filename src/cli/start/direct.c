#include "cli/start/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/report/write_all.h"
#include "cli/start/host_key.h"
#include "cli/start/tls_relay.h"
#include "net/driver.h"
#include "net/sockaddr.h"

#define CONNECT_NS (5 * NS_PER_S) /* to each address */
#define HANDSHAKE_NS (10 * NS_PER_S)
#define ANSWER_NS (10 * NS_PER_S)
#define LOOK_MS 100

/* ---- keys ---- */

/* During the handshake nobody is asked: it would not wait. */
static bool judge(void *context, const uint8_t key[HANDSHAKE_KEY_SIZE], struct error *error)
{
    struct direct *direct = context;
    const struct ssh_options *options = direct->options;
    struct known_host_found found;
    char *own = options->known_hosts == NULL ? known_hosts_default_path(error) : NULL;
    const char *path = own != NULL ? own : options->known_hosts;
    bool good = path != NULL && known_hosts_check(path, options->listening, options->listening_port,
                                                  key, &found, error);
    if (good && found.what == KNOWN_HOST_CHANGED)
        good = known_hosts_refuse(path, options->listening, options->listening_port, key, &found,
                                  error);
    else if (good && found.what == KNOWN_HOST_NEW) {
        direct->is_unknown = true;
        memcpy(direct->key, key, KEY_SIZE);
        good = error_set(error, ERROR_CRYPTO, "%s was not met before", options->listening);
    }
    free(own);
    return good;
}

/* A key that was named is there: a slip in its name would make another one. */
static bool load_own(struct direct *direct, struct error *error)
{
    const struct ssh_options *options = direct->options;
    bool made = false;
    if (options->identity != NULL)
        return identity_load(options->identity, &direct->own, error);
    char *path = identity_default_path(error);
    bool good = path != NULL && identity_load_or_make(path, &direct->own, &made, error);
    if (good && made)
        fprintf(stderr, "petrel: made a key in %s; petrel key prints what %s has to authorise\n",
                path, options->listening);
    free(path);
    return good;
}

bool direct_open(struct direct *direct, const struct ssh_options *options, struct error *error)
{
    *direct = (struct direct){.options = options};
    if (!load_own(direct, error))
        return false;
    memcpy(direct->identity.seed, direct->own.seed, KEY_SIZE);
    direct->identity.judge = judge;
    direct->identity.context = direct;
    return true;
}

bool direct_accepts(struct direct *direct, struct error *error)
{
    const struct ssh_options *options = direct->options;
    const struct host_key_options how = {.path = options->known_hosts,
                                         .accept_new = options->accept_new,
                                         .batch = options->batch,
                                         .stop = options->stop};
    if (!direct->is_unknown)
        return false;
    direct->is_unknown = false;
    error_clear(error);
    return host_key_accept(&how, options->listening, options->listening_port, direct->key, error);
}

void direct_close(struct direct *direct)
{
    identity_wipe(&direct->own);
    wipe(direct->identity.seed, sizeof(direct->identity.seed));
}

/* ---- the way there ---- */

bool direct_resolve(const struct direct *direct, struct far_addresses *addresses,
                    struct error *error)
{
    const struct ssh_options *options = direct->options;
    *addresses = (struct far_addresses){.port = options->listening_port, .family = options->family};
    far_addresses_add(addresses, options->listening, false);
    return addresses->count > 0 ||
           error_set(error, ERROR_UNREACHABLE, "no address is known of %s", options->listening);
}

static bool is_stopped(const struct direct *direct)
{
    return direct->options->stop != NULL && *direct->options->stop > 0;
}

/* 0 when connected, else why not. */
static int wait_connected(const struct direct *direct, int tcp)
{
    uint64_t until_ns = driver_now() + CONNECT_NS;
    while (driver_now() < until_ns && !is_stopped(direct)) {
        struct pollfd waits = {.fd = tcp, .events = POLLOUT};
        int cause = 0;
        socklen_t size = sizeof(cause);
        if (poll(&waits, 1, LOOK_MS) <= 0)
            continue;
        return getsockopt(tcp, SOL_SOCKET, SO_ERROR, &cause, &size) == 0 ? cause : errno;
    }
    return ETIMEDOUT;
}

static int connect_to(const struct direct *direct, const struct address *address, int *cause)
{
    struct sockaddr_storage storage;
    socklen_t length = sockaddr_from_address(&storage, address);
    int tcp = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (tcp < 0) {
        *cause = errno;
        return -1;
    }
    *cause = connect(tcp, (struct sockaddr *)&storage, length) == 0 ? 0 : errno;
    if (*cause == EINPROGRESS)
        *cause = wait_connected(direct, tcp);
    if (*cause == 0)
        return tcp;
    close(tcp);
    return -1;
}

static int connect_any(const struct direct *direct, struct error *error)
{
    struct far_addresses addresses;
    int cause = 0;
    if (!direct_resolve(direct, &addresses, error))
        return -1;
    for (unsigned i = 0; i < addresses.count && !is_stopped(direct); i++) {
        int tcp = connect_to(direct, &addresses.list[i], &cause);
        if (tcp >= 0)
            return tcp;
    }
    if (is_stopped(direct))
        error_set(error, ERROR_INTERRUPTED, "interrupted");
    else
        error_set(
            error, ERROR_UNREACHABLE,
            "no answer from TCP port %u of %s: %s; does petrel serve run there, and is the port "
            "open?",
            direct->options->listening_port, direct->options->listening, strerror(cause));
    return -1;
}

/* ---- the stream ---- */

static struct tls_relay *start_relay(struct direct *direct, int *plain, struct error *error)
{
    for (;;) {
        int tcp = connect_any(direct, error);
        struct tls_relay *relay = tcp >= 0
                                      ? tls_relay_start(tcp, true, &direct->identity, HANDSHAKE_NS,
                                                        direct->options->stop, plain, error)
                                      : NULL;
        if (relay != NULL || !direct_accepts(direct, error))
            return relay;
    }
}

static bool read_answer(const struct direct *direct, struct ssh_channel *channel,
                        struct error *error)
{
    char line[BOOTSTRAP_LINE_MAX];
    size_t length = 0;
    uint64_t until_ns = driver_now() + ANSWER_NS;
    while (length + 1 < sizeof(line) && driver_now() < until_ns && !is_stopped(direct)) {
        struct pollfd waits = {.fd = channel->from_remote, .events = POLLIN};
        if (poll(&waits, 1, LOOK_MS) <= 0)
            continue;
        if (recv(channel->from_remote, line + length, 1, 0) != 1)
            break;
        if (line[length] == '\n') {
            line[length] = '\0';
            return bootstrap_read_answer(&channel->answer, line, error);
        }
        length++;
    }
    if (is_stopped(direct))
        return error_set(error, ERROR_INTERRUPTED, "interrupted");
    if (tls_relay_was_refused(channel->relay))
        return error_set(error, ERROR_PERMISSION, DIRECT_REFUSED, direct->options->listening);
    return error_set(error, ERROR_PEER_LOST, "%s closed the connection or does not answer",
                     direct->options->listening);
}

static bool draw_secret(struct bootstrap_start *start, struct error *error)
{
    return random_bytes(start->secret, START_SECRET_SIZE, error) &&
           random_bytes(start->session_id, SESSION_ID_SIZE, error);
}

bool direct_start(struct ssh_channel *channel, const struct ssh_options *options,
                  struct bootstrap_start *start, struct error *error)
{
    struct direct direct;
    char line[BOOTSTRAP_LINE_MAX];
    int plain = -1;
    *channel = (struct ssh_channel){.to_remote = -1, .from_remote = -1};
    if (!direct_open(&direct, options, error))
        return false;
    size_t length =
        draw_secret(start, error) ? bootstrap_write_start(start, line, sizeof(line)) : 0;
    channel->relay = length > 0 ? start_relay(&direct, &plain, error) : NULL;
    bool good = channel->relay != NULL;
    if (good) {
        channel->to_remote = plain;
        channel->from_remote = fcntl(plain, F_DUPFD_CLOEXEC, 0);
        write_all(plain, line, length); /* a failure shows in the answer */
        good = channel->from_remote >= 0 && read_answer(&direct, channel, error);
    }
    wipe(line, sizeof(line));
    direct_close(&direct);
    if (!good)
        ssh_close(channel, 0);
    return good || error_set(error, ERROR_IO, "cannot reach %s", options->listening);
}
