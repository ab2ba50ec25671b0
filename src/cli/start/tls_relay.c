#include "cli/start/tls_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/units.h"
#include "net/driver.h"

#define PIECE 16384u
#define UNSENT_MAX (256u * 1024u)
#define LOOK_MS 100 /* how soon a stop is seen */
#define LAST_NS (3 * NS_PER_S)

struct buffer {
    uint8_t bytes[PIECE];
    size_t at, end;
};

struct tls_relay {
    struct handshake *tls;
    int tcp, plain;
    struct buffer out, in; /* sealed, on its way to TCP; opened, on its way to the caller */
    bool tcp_in_over, tcp_out_over;     /* nothing more comes; nobody takes anything */
    bool plain_in_over, plain_out_over; /* the same of the caller's side */
    atomic_bool refused, hurry;
    pthread_t thread;
    bool started;
};

static void set_nonblocking(int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0)
        fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* Writes what it can; false when nobody takes it any more. */
static bool flush(int descriptor, struct buffer *buffer)
{
    while (buffer->at < buffer->end) {
        ssize_t sent =
            send(descriptor, buffer->bytes + buffer->at, buffer->end - buffer->at, MSG_NOSIGNAL);
        if (sent < 0)
            return would_block();
        buffer->at += (size_t)sent;
    }
    buffer->at = buffer->end = 0;
    return true;
}

/* All that TLS has to say, as far as TCP takes it. */
static bool send_sealed(struct tls_relay *relay)
{
    for (;;) {
        if (!flush(relay->tcp, &relay->out))
            return false;
        if (relay->out.end > 0)
            return true;
        relay->out.end = handshake_send(relay->tls, relay->out.bytes, PIECE);
        if (relay->out.end == 0)
            return true;
    }
}

/* Bytes from TCP, to `take`. False when there will be no more. */
static bool read_tcp(struct tls_relay *relay,
                     bool (*take)(struct handshake *, const uint8_t *, size_t, struct error *),
                     struct error *error)
{
    uint8_t bytes[PIECE];
    ssize_t got = recv(relay->tcp, bytes, sizeof(bytes), 0);
    if (got < 0 && would_block())
        return true;
    if (got > 0)
        return take(relay->tls, bytes, (size_t)got, error);
    return error_set(error, ERROR_PEER_LOST, "the other end closed the connection");
}

/* ---- the handshake ---- */

static bool shake_hands(struct tls_relay *relay, uint64_t timeout_ns, const volatile int *stop,
                        struct error *error)
{
    uint64_t until_ns = driver_now() + timeout_ns;
    while (!handshake_finished(relay->tls)) {
        if (!send_sealed(relay))
            return error_set(error, ERROR_PEER_LOST, "the other end closed the connection");
        if (stop != NULL && *stop != 0)
            return error_set(error, ERROR_INTERRUPTED, "interrupted");
        if (driver_now() >= until_ns)
            return error_set(error, ERROR_PEER_LOST, "the other end fell silent in its handshake");
        struct pollfd waits = {.fd = relay->tcp,
                               .events = (short)(POLLIN | (relay->out.end > 0 ? POLLOUT : 0))};
        if (poll(&waits, 1, LOOK_MS) > 0 && (waits.revents & ~POLLOUT) != 0 &&
            !read_tcp(relay, handshake_receive, error)) {
            send_sealed(relay); /* it may be told why */
            return false;
        }
    }
    return send_sealed(relay) ||
           error_set(error, ERROR_PEER_LOST, "the other end closed the connection");
}

/* ---- the relay ---- */

static void open_bytes(struct tls_relay *relay)
{
    bool ended = false;
    while (relay->in.end == 0) {
        relay->in.end = handshake_read(relay->tls, relay->in.bytes, PIECE, &ended);
        if (relay->in.end == 0)
            break; /* nothing whole yet, or nothing any more */
        if (relay->plain_out_over || !flush(relay->plain, &relay->in)) {
            relay->plain_out_over = true;
            relay->in.at = relay->in.end = 0;
        }
    }
    if (handshake_was_refused(relay->tls))
        relay->refused = true;
    relay->tcp_in_over = relay->tcp_in_over || ended;
}

static void take_plain(struct tls_relay *relay)
{
    uint8_t bytes[PIECE];
    ssize_t got = recv(relay->plain, bytes, sizeof(bytes), 0);
    if (got < 0 && would_block())
        return;
    if (got > 0 && handshake_write(relay->tls, bytes, (size_t)got, NULL))
        return;
    relay->plain_in_over = true;
    handshake_close(relay->tls);
}

static short wanted(bool readable, bool writable)
{
    return (short)((readable ? POLLIN : 0) | (writable ? POLLOUT : 0));
}

static bool is_unsent(const struct tls_relay *relay)
{
    return !relay->tcp_out_over && (relay->out.end > 0 || handshake_unsent(relay->tls) > 0);
}

static void give_up_tcp(struct tls_relay *relay)
{
    relay->tcp_in_over = relay->tcp_out_over = true;
    relay->out.at = relay->out.end = 0;
}

/* One look at both sides. */
static void turn(struct tls_relay *relay)
{
    bool takes =
        !relay->plain_in_over && !relay->tcp_out_over && handshake_unsent(relay->tls) < UNSENT_MAX;
    bool opens = !relay->tcp_in_over && relay->in.end == 0;
    bool sends = relay->out.end > 0, gives = relay->in.end > 0;
    struct pollfd waits[2] = {
        {.fd = opens || sends ? relay->tcp : -1, .events = wanted(opens, sends)},
        {.fd = takes || gives ? relay->plain : -1, .events = wanted(takes, gives)},
    };
    const short readable = POLLIN | POLLHUP | POLLERR;
    poll(waits, 2, LOOK_MS);
    if (takes && (waits[1].revents & readable) != 0)
        take_plain(relay);
    if (gives && !flush(relay->plain, &relay->in)) {
        relay->plain_out_over = true;
        relay->in.at = relay->in.end = 0;
    }
    if (opens && (waits[0].revents & readable) != 0 && !read_tcp(relay, handshake_feed, NULL))
        relay->tcp_in_over = true;
    open_bytes(relay);
    if (!relay->tcp_out_over && !send_sealed(relay))
        give_up_tcp(relay);
}

static bool is_over(const struct tls_relay *relay)
{
    bool said = (relay->plain_in_over || relay->tcp_out_over) && !is_unsent(relay);
    return said && (relay->plain_out_over || relay->hurry);
}

static void *run(void *context)
{
    struct tls_relay *relay = context;
    uint64_t last_ns = TIME_NEVER;
    while (!is_over(relay) && driver_now() < last_ns) {
        turn(relay);
        if (relay->tcp_in_over && relay->in.end == 0 && !relay->plain_out_over) {
            shutdown(relay->plain, SHUT_WR); /* the caller reads the end, too */
            relay->plain_out_over = true;
        }
        if (relay->hurry && last_ns == TIME_NEVER)
            last_ns = driver_now() + LAST_NS;
    }
    shutdown(relay->tcp, SHUT_WR);
    shutdown(relay->plain, SHUT_RDWR);
    return NULL;
}

static void release(struct tls_relay *relay)
{
    close(relay->tcp);
    if (relay->plain >= 0)
        close(relay->plain);
    handshake_free(relay->tls);
    free(relay);
}

static bool begin(struct tls_relay *relay, int *plain, struct error *error)
{
    int ends[2];
    sigset_t all, before;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return error_set_errno(error, errno, "cannot make a pair of sockets");
    relay->plain = ends[0];
    set_nonblocking(ends[0]);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    relay->started = pthread_create(&relay->thread, NULL, run, relay) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (relay->started) {
        *plain = ends[1];
        return true;
    }
    close(ends[1]);
    return error_set(error, ERROR_MEMORY, "cannot start a thread for TLS");
}

struct tls_relay *tls_relay_start(int tcp, bool client, const struct handshake_identity *identity,
                                  uint64_t timeout_ns, const volatile int *stop, int *plain,
                                  struct error *error)
{
    struct tls_relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL) {
        close(tcp);
        error_set(error, ERROR_MEMORY, "out of memory for TLS");
        return NULL;
    }
    relay->tcp = tcp;
    relay->plain = -1;
    set_nonblocking(tcp);
    struct handshake_identity own = *identity;
    own.stream = true;
    relay->tls = handshake_new_keys(client, &own, error);
    wipe(own.seed, sizeof(own.seed));
    if (relay->tls != NULL && shake_hands(relay, timeout_ns, stop, error) &&
        begin(relay, plain, error))
        return relay;
    release(relay);
    return NULL;
}

bool tls_relay_was_refused(const struct tls_relay *relay)
{
    return relay->refused;
}

void tls_relay_end(struct tls_relay *relay)
{
    if (relay == NULL)
        return;
    relay->hurry = true;
    pthread_join(relay->thread, NULL);
    release(relay);
}
