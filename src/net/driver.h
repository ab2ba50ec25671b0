/* Drives one session on real sockets: the opening, lanes on threads, timers and wake-ups.
 *
 * driver_run blocks until the session has ended and every thread it started is gone. The only part
 * of petrel that owns network threads and reads the clock. What the session carries is the business
 * of a `struct driver_upper`, whose functions run on the session's thread.
 */
#ifndef PETREL_NET_DRIVER_H
#define PETREL_NET_DRIVER_H

#include "base/address.h"
#include "transport/opening.h"
#include "transport/ports_packet.h"
#include "transport/session.h"

struct driver_upper {
    void *context;
    /* The opening has finished; the session is borrowed until driver_free. */
    void (*attach)(void *context, struct session *session, uint64_t now_ns);
    /* Moves what can be moved between the session and whatever is above; true when something
     * moved. Called after session_step, which may have run several times since the last call. */
    bool (*step)(void *context, uint64_t now_ns);
    uint64_t (*deadline)(void *context);
    /* True when nothing above holds the run open any more; it ends once the session is closed. */
    bool (*is_ended)(void *context);
    /* About ten times a second, for progress; also before the session exists (session NULL). */
    void (*tick)(void *context, uint64_t now_ns);
    /* Ctrl-C: tell the peer and wind down. */
    void (*interrupt)(void *context, uint64_t now_ns);
};

struct udp_listener;
struct driver;

/* Who does not let UDP packets pass, as far as anybody has said so. */
enum driver_refusal {
    REFUSAL_NONE,
    REFUSAL_HERE,  /* this machine does not send them */
    REFUSAL_THERE, /* the server's machine does not */
};

/* Which way a client's session goes, for people. */
struct driver_way {
    bool stream; /* through the stream; else by UDP */
    bool worked; /* UDP did carry the session before */
    enum driver_refusal refusal;
    const char *cause; /* what was tried by UDP and how it ended, or the address that answers; ""
                          when there was nothing to try */
};

struct driver_config {
    bool client;
    enum transfer_role role;
    uint8_t secret[START_SECRET_SIZE];
    uint8_t session_id[SESSION_ID_SIZE];
    /* A start at a listening server: who we are, by key, in place of the two above (borrowed; see
     * transport/opening.h). Without a stream. */
    const struct handshake_identity *identity;
    uint8_t own_id[OPEN_ID_SIZE], peer_id[OPEN_ID_SIZE];
    bool says_wishes; /* client */
    struct hello_wishes wishes;
    /* Server: its seat at a shared port (net/shared_port.h), which its connection ids begin with;
     * first packets of the client come on `handed` (net/handed.h), which stays the caller's. */
    uint16_t seat;
    int handed;
    uint32_t initial_credit;       /* blocks a receiver grants in its hello */
    struct address candidates[16]; /* client: where the server may be */
    unsigned candidate_count;
    struct udp_listener *listener; /* server: from driver_listen; stays the caller's */
    /* Server: where it may listen when the client gets nothing through to the listener's port, for
     * some seconds; the listener then has the port that the client came to. 0: nowhere. */
    uint16_t first_port, last_port;
    /* On either side: a stream over two descriptors (may be the same one), which stay the caller's.
     * With candidates or a listener it is the second way: the session goes there while UDP is
     * silent. Alone it carries everything. Ignores SIGPIPE in this process. */
    bool stream;
    int stream_in, stream_out;
    bool stream_for_ports; /* the stream carries no session, only the ports packets below */
    /* Through the stream: a client tells the ports it sends from, a server sends a few packets to
     * these ports of `punch_to` (family 0: nowhere), so that firewalls take what follows for
     * replies. */
    bool tells_ports;
    struct address punch_to;
    /* Client: takes the ports in place of the stream, on the session's thread. May be NULL. */
    void (*on_ports)(void *context, const struct client_port *ports, size_t count);
    void *ports_context;
    /* Client: called on the session's thread when UDP did not answer and the stream carries on, and
     * when that ends. Not for a slow first answer. May be NULL. */
    void (*on_way)(void *context, const struct driver_way *way);
    void *way_context;
    unsigned lanes; /* client: 0 for auto; a server follows the client */
    uint64_t limit_bps, fixed_bps;
    /* Server with an identity: a further limit (0: none), read when the client has proved who it
     * is. NULL: none. */
    const uint64_t *guest_limit_bps;
    enum rate_policy policy;       /* unless fixed_bps says the rate */
    struct rate_memory remembered; /* of an earlier transfer over this path; rate 0: none */
    uint64_t rtt_ns;               /* known before, 0 if not */
    uint64_t open_timeout_ns;      /* until "no answer" */
    uint64_t idle_timeout_ns;      /* 0: 90 s */
    struct driver_upper upper;
    /* Watched at each wake-up; set from a signal handler. 1: upper.interrupt; 2 or more: at once.
     */
    const volatile int *stop;
    /* A descriptor to watch, e.g. the SSH channel; -1 for none. on_watch runs on the session's
     * thread when it is readable or closed, and returns false to stop watching. When it is
     * `stream_in`, only once the stream is over. */
    int watch_fd;
    bool (*on_watch)(void *context, int fd);
    void *watch_context;
};

struct driver *driver_new(const struct driver_config *config, struct error *error);
/* True: the session ended well. False with the cause otherwise. */
bool driver_run(struct driver *driver, struct error *error);
/* From any thread or a signal handler: something above has work for the session's thread. */
void driver_wake(struct driver *driver);
void driver_free(struct driver *driver);
/* The monotonic clock that all times are taken from. */
uint64_t driver_now(void);

/* How many network threads serve so many lanes: one each, as far as half of the processors; the
 * other half hash and wait for disks. 0 lanes: what `auto` starts with, 1 to 4. */
unsigned driver_threads(unsigned lanes);

/* The further ports that a server with `own_port` tries to open where nobody answers the client
 * there: `number` from 0 to below DRIVER_MORE_PORTS. 0: the range has no such port. */
#define DRIVER_MORE_PORTS 8u
uint16_t driver_more_port(uint16_t first_port, uint16_t last_port, uint16_t own_port,
                          unsigned number);

/* Server: binds one UDP port out of [first, last] on all addresses, IPv4 and IPv6, one SO_REUSEPORT
 * socket per network thread. ERROR_IO that names the range when all of it is in use. */
struct udp_listener *driver_listen(uint16_t first_port, uint16_t last_port, unsigned threads,
                                   struct error *error);
uint16_t udp_listener_port(const struct udp_listener *listener);
void udp_listener_free(struct udp_listener *listener);

/* After driver_run of a client that failed. */
struct driver_udp_end {
    bool is_cause; /* UDP did not get through, or no more; the error names what was tried */
    enum driver_refusal refusal;
};
void driver_udp_end(const struct driver *driver, struct driver_udp_end *end);

struct driver_statistics {
    uint64_t send_calls, receive_calls;
    uint64_t datagrams_sent, datagrams_received;
    uint64_t refused;      /* datagrams that a local rule or a missing route refused */
    uint64_t socket_drops; /* datagrams that our own full buffers dropped, about */
    unsigned receive_buffer, send_buffer; /* bytes, the smallest granted */
    bool segmentation, coalescing;        /* on every socket */
    unsigned threads;
};
/* Of the sockets in use. After driver_run: the lanes' threads count without locks. */
void driver_statistics(const struct driver *driver, struct driver_statistics *statistics);

/* For tests: how long a session may be silent where its configuration says nothing. */
void driver_test_idle(uint64_t timeout_ns);

/* Once the session exists: when socket buffers came out too small for fast paths, one line that
 * names the sysctl; else NULL. */
const char *driver_buffer_hint(const struct driver *driver);

#endif
