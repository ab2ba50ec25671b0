#include "cli/server/serve_door.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/start/far_addresses.h"
#include "net/handed.h"
#include "net/shared_port.h"
#include "net/sockaddr.h"
#include "transport/gate.h"

#define STRANGERS_MAX 64u         /* that have not shown an authorised key */
#define STRANGERS_OF_HOST_MAX 16u /* of them from one address */
#define STRANGERS_BUSY 4u         /* from so many on, a cookie is asked for */
#define STARTS_BUSY 8u            /* and from so many clients in one second on */
#define TCP_BACKLOG 64
#define BATCHES_A_TURN 8u
#define WAIT_MAX_S 60

/* A client and the process that serves it. */
struct guest {
    pid_t pid; /* 0: nobody */
    bool admitted;
    unsigned seat;            /* at the shared port; 0: by TCP */
    uint8_t id[OPEN_ID_SIZE]; /* UDP: the client's */
    struct address from;
    int handed; /* our end of the pair; -1: closed */
};

struct serve_door {
    struct serve_door_config config;
    struct shared_port *port;
    unsigned seats;
    int tcp[2]; /* IPv4, IPv6; -1: none */
    struct gate gate;
    struct guest *guests; /* config.clients of them */
    struct pollfd *waits; /* guests, 4 ports, the desk's */
    struct udp_batch *batch;
    uint64_t second_ns; /* the running second's beginning */
    unsigned starts;    /* in it */
    bool shut;
};

/* ---- opening and closing ---- */

/* For the sockets of all seats. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool listen_tcp(struct serve_door *door, unsigned i, const struct address *at,
                       struct error *error)
{
    struct sockaddr_storage storage;
    socklen_t length = sockaddr_from_address(&storage, at);
    int one = 1;
    int tcp = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    door->tcp[i] = tcp;
    if (tcp < 0)
        return error_set_errno(error, errno, "cannot open a TCP socket");
    setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (at->family == 6)
        setsockopt(tcp, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (bind(tcp, (struct sockaddr *)&storage, length) == 0 && listen(tcp, TCP_BACKLOG) == 0)
        return true;
    return error_set_errno(error, errno, "cannot listen on TCP port %u", at->port);
}

static bool open_ports(struct serve_door *door, struct error *error)
{
    const struct serve_door_config *config = &door->config;
    struct far_addresses own = {0};
    if (config->listen != NULL)
        far_addresses_add(&own, config->listen, true);
    if (config->listen != NULL && own.count == 0)
        return error_set(error, ERROR_USAGE, "--listen takes an address of this machine, not %s",
                         config->listen);
    door->port = shared_port_open(own.count > 0 ? &own.list[0] : NULL, config->port,
                                  driver_threads(0), error);
    if (door->port == NULL)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        uint8_t family = i == 0 ? 4 : 6;
        struct address at = own.count > 0 ? own.list[0] : (struct address){.family = family};
        at.port = shared_port_number(door->port);
        if (shared_port_door(door->port, family) != NULL && !listen_tcp(door, i, &at, error))
            return false;
    }
    return true;
}

struct serve_door *serve_door_open(const struct serve_door_config *config, struct error *error)
{
    struct serve_door *door = calloc(1, sizeof(*door));
    if (door == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for the door");
        return NULL;
    }
    raise_descriptors();
    door->config = *config;
    door->tcp[0] = door->tcp[1] = -1;
    door->guests = calloc(config->clients, sizeof(*door->guests));
    door->waits = calloc(config->clients + 4 + SERVE_DESK_POLLS, sizeof(*door->waits));
    door->batch = udp_batch_new();
    bool good = door->guests != NULL && door->waits != NULL && door->batch != NULL;
    if (!good)
        error_set(error, ERROR_MEMORY, "no memory for %u clients", config->clients);
    if (good && random_bytes(door->gate.key, sizeof(door->gate.key), error) &&
        open_ports(door, error))
        return door;
    serve_door_close(door);
    return NULL;
}

static void close_tcp(struct serve_door *door)
{
    for (unsigned i = 0; i < 2; i++) {
        if (door->tcp[i] >= 0)
            close(door->tcp[i]);
        door->tcp[i] = -1;
    }
}

void serve_door_close(struct serve_door *door)
{
    if (door == NULL)
        return;
    close_tcp(door);
    shared_port_free(door->port);
    udp_batch_free(door->batch);
    free(door->guests);
    free(door->waits);
    free(door);
}

/* ---- guests ---- */

static unsigned count(const struct serve_door *door, bool strangers, const struct address *host)
{
    unsigned found = 0;
    for (unsigned i = 0; i < door->config.clients; i++) {
        const struct guest *guest = &door->guests[i];
        found += guest->pid != 0 && (!strangers || !guest->admitted) &&
                 (host == NULL || address_same_host(&guest->from, host));
    }
    return found;
}

unsigned serve_door_guests(const struct serve_door *door)
{
    return count(door, false, NULL);
}

static struct guest *find_guest(struct serve_door *door, const uint8_t id[OPEN_ID_SIZE])
{
    for (unsigned i = 0; i < door->config.clients; i++) {
        struct guest *guest = &door->guests[i];
        if (guest->pid != 0 && guest->seat != 0 && memcmp(guest->id, id, OPEN_ID_SIZE) == 0)
            return guest;
    }
    return NULL;
}

/* A place for one more; NULL when there is none now. */
static struct guest *free_place(struct serve_door *door, const struct address *from)
{
    struct guest *place = NULL;
    for (unsigned i = 0; i < door->config.clients && place == NULL; i++)
        place = door->guests[i].pid == 0 ? &door->guests[i] : NULL;
    if (door->shut || count(door, true, NULL) >= STRANGERS_MAX ||
        count(door, true, from) >= STRANGERS_OF_HOST_MAX)
        return NULL;
    return place;
}

static bool is_taken(const struct serve_door *door, unsigned seat)
{
    for (unsigned i = 0; i < door->config.clients; i++) {
        if (door->guests[i].pid != 0 && door->guests[i].seat == seat)
            return true;
    }
    return false;
}

static unsigned free_seat(struct serve_door *door)
{
    for (unsigned seat = 1; seat <= door->seats; seat++) {
        if (!is_taken(door, seat))
            return seat;
    }
    unsigned added = shared_port_add_seat(door->port, NULL);
    if (added != 0)
        door->seats = added;
    return added;
}

static void note_start(struct serve_door *door, uint64_t now_ns)
{
    if (now_ns >= door->second_ns + NS_PER_S) {
        door->second_ns = now_ns;
        door->starts = 0;
    }
    door->starts++;
}

static bool is_busy(const struct serve_door *door, uint64_t now_ns)
{
    return count(door, true, NULL) >= STRANGERS_BUSY ||
           (now_ns < door->second_ns + NS_PER_S && door->starts >= STARTS_BUSY);
}

/* In the new process: lets go of what is the door's, and dies with it, for nobody else keeps the
 * seats in their order (net/shared_port.h). */
static void become_child(struct serve_door *door, pid_t parent, const struct guest *guest)
{
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0); /* Ctrl-C is for the door, which lets its guests end */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(0);
    close_tcp(door);
    for (unsigned i = 0; i < door->config.clients; i++) {
        if (door->guests[i].pid != 0 && door->guests[i].handed >= 0)
            close(door->guests[i].handed);
    }
    close(guest->handed);
    serve_desk_become_session(door->config.desk, (unsigned)(guest - door->guests));
    signal(SIGCHLD, SIG_DFL);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_DFL); /* both are caught again by who serves */
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

struct arrival {
    const struct address *from;
    /* By UDP */
    const struct open_packet *first;
    struct udp_listener *listener;
    unsigned seat;
    int tcp;
    bool logs;
};

static void serve_guest(struct serve_door *door, const struct arrival *arrival, unsigned place,
                        int door_end)
{
    const struct serve_guest guest = {.from = *arrival->from,
                                      .door = door_end,
                                      .board = serve_desk_board(door->config.desk),
                                      .place = place,
                                      .logs = arrival->logs};
    int code = arrival->first != NULL
                   ? serve_session_udp(door->config.setup, &guest, arrival->listener, arrival->seat,
                                       arrival->first)
                   : serve_session_tcp(door->config.setup, &guest, arrival->tcp);
    fflush(NULL);
    _exit(code);
}

/* False when the system has nothing left for it. */
static bool begin_guest(struct serve_door *door, struct guest *guest, struct arrival *arrival,
                        int ends[2])
{
    unsigned place = (unsigned)(guest - door->guests);
    pid_t parent = getpid();
    fflush(NULL);
    *guest = (struct guest){.seat = arrival->seat, .from = *arrival->from, .handed = ends[0]};
    if (arrival->first != NULL)
        memcpy(guest->id, arrival->first->from, OPEN_ID_SIZE);
    serve_desk_came(door->config.desk, place, arrival->from, &arrival->logs);
    pid_t pid = fork();
    if (pid == 0) {
        become_child(door, parent, guest);
        serve_guest(door, arrival, place, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        serve_desk_left(door->config.desk, place, false);
        *guest = (struct guest){.handed = -1};
        return false;
    }
    guest->pid = pid;
    return true;
}

void serve_door_reap(struct serve_door *door)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (unsigned i = 0; i < door->config.clients; i++) {
            struct guest *guest = &door->guests[i];
            if (guest->pid != pid)
                continue;
            if (WIFSIGNALED(status))
                fprintf(stderr, "petrel serve: the process for a client ended by signal %d\n",
                        WTERMSIG(status));
            if (guest->handed >= 0)
                close(guest->handed);
            if (guest->seat != 0)
                shared_port_leave(door->port, guest->seat);
            serve_desk_left(door->config.desk, i, WIFEXITED(status) && WEXITSTATUS(status) == 0);
            *guest = (struct guest){.handed = -1};
        }
    }
}

void serve_door_shut(struct serve_door *door)
{
    door->shut = true;
    serve_desk_counts(door->config.desk)->draining = true;
    close_tcp(door);
}

void serve_door_end_guests(struct serve_door *door)
{
    for (unsigned i = 0; i < door->config.clients; i++) {
        if (door->guests[i].pid != 0)
            kill(door->guests[i].pid, SIGTERM);
    }
}

/* ---- who comes by UDP ---- */

static void let_in(struct serve_door *door, const struct udp_message *message, const uint8_t *bytes,
                   size_t size, const struct open_packet *first, uint64_t now_ns)
{
    struct guest *guest = free_place(door, &message->from);
    int ends[2];
    struct arrival arrival = {.from = &message->from, .first = first, .tcp = -1};
    if (guest == NULL)
        serve_desk_turned_away(door->config.desk, &message->from);
    if (guest == NULL || !handed_pair(ends, NULL))
        return;
    arrival.seat = free_seat(door);
    bool good =
        arrival.seat != 0 && handed_send(ends[0], &message->from, &message->local, bytes, size);
    if (!good) {
        close(ends[0]);
        close(ends[1]);
        return;
    }
    arrival.listener = shared_port_seat(door->port, arrival.seat);
    note_start(door, now_ns);
    begin_guest(door, guest, &arrival, ends);
}

static void take_datagram(struct serve_door *door, struct udp_socket *socket,
                          const struct udp_message *message, const uint8_t *bytes, size_t size)
{
    uint64_t now_ns = driver_now();
    struct open_packet packet;
    uint8_t answer[COOKIE_PACKET_SIZE];
    struct guest *guest = NULL;
    if (size > 0 && bytes[0] == OPEN_PACKET_TYPE && size >= DATAGRAM_MIN &&
        open_packet_read(&packet, bytes, size))
        guest = find_guest(door, packet.from);
    if (guest != NULL) { /* its client has not heard of its seat yet */
        handed_send(guest->handed, &message->from, &message->local, bytes, size);
        return;
    }
    switch (gate_judge(&door->gate, &message->from, bytes, size, is_busy(door, now_ns), now_ns,
                       &packet, answer)) {
    case GATE_DROP:
        serve_desk_counts(door->config.desk)->datagrams_dropped++;
        break;
    case GATE_COOKIE:
        serve_desk_counts(door->config.desk)->cookies++;
        udp_answer_from(socket, &message->from, &message->local);
        udp_send_datagram(socket, &message->from, answer, sizeof(answer), now_ns);
        break;
    case GATE_ADMIT:
        let_in(door, message, bytes, size, &packet, now_ns);
        break;
    }
}

static void take_datagrams(struct serve_door *door, struct udp_socket *socket)
{
    for (unsigned turn = 0; turn < BATCHES_A_TURN && udp_receive(socket, door->batch); turn++) {
        for (unsigned i = 0; i < door->batch->count; i++) {
            const struct udp_message *message = &door->batch->messages[i];
            for (size_t at = 0; at < message->size; at += message->segment) {
                size_t left = message->size - at;
                take_datagram(door, socket, message, message->bytes + at,
                              left < message->segment ? left : message->segment);
            }
        }
    }
}

/* ---- who comes by TCP ---- */

static void take_connection(struct serve_door *door, int listener)
{
    struct sockaddr_storage storage;
    socklen_t length = sizeof(storage);
    struct address from = {0};
    int tcp = accept4(listener, (struct sockaddr *)&storage, &length, SOCK_CLOEXEC);
    int ends[2];
    if (tcp < 0)
        return;
    struct arrival arrival = {.from = &from, .tcp = tcp};
    struct guest *guest = sockaddr_to_address(&from, &storage) ? free_place(door, &from) : NULL;
    if (guest == NULL)
        serve_desk_turned_away(door->config.desk, &from);
    if (guest != NULL && handed_pair(ends, NULL)) {
        note_start(door, driver_now());
        begin_guest(door, guest, &arrival, ends);
    }
    close(tcp);
}

/* ---- waiting ---- */

/* A guest's process says that its client has shown an authorised key, or is about to end. */
static void hear_guest(struct serve_door *door, struct guest *guest)
{
    char byte;
    ssize_t got = recv(guest->handed, &byte, 1, MSG_DONTWAIT);
    if (got == 1) {
        guest->admitted = true;
        serve_desk_admitted(door->config.desk, (unsigned)(guest - door->guests));
    } else if (got == 0) {
        close(guest->handed);
        guest->handed = -1;
    }
}

void serve_door_wait(struct serve_door *door, const sigset_t *mask)
{
    unsigned guests = door->config.clients;
    struct pollfd *own = door->waits + guests;
    uint64_t wait_ns = serve_desk_wait(door->config.desk, WAIT_MAX_S * NS_PER_S);
    const struct timespec longest = {.tv_sec = (time_t)(wait_ns / NS_PER_S),
                                     .tv_nsec = (long)(wait_ns % NS_PER_S)};
    for (unsigned i = 0; i < guests; i++) {
        const struct guest *guest = &door->guests[i];
        door->waits[i] =
            (struct pollfd){.fd = guest->pid != 0 ? guest->handed : -1, .events = POLLIN};
    }
    for (unsigned i = 0; i < 2; i++) {
        struct udp_socket *socket = shared_port_door(door->port, i == 0 ? 4 : 6);
        own[i] =
            (struct pollfd){.fd = socket != NULL ? udp_descriptor(socket) : -1, .events = POLLIN};
        own[2 + i] = (struct pollfd){.fd = door->tcp[i], .events = POLLIN};
    }
    unsigned desk = serve_desk_polls(door->config.desk, own + 4);
    int came = ppoll(door->waits, guests + 4 + desk, &longest, mask);
    serve_desk_step(door->config.desk);
    if (came <= 0)
        return;
    for (unsigned i = 0; i < guests; i++) {
        if (door->waits[i].revents != 0)
            hear_guest(door, &door->guests[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (own[i].revents != 0)
            take_datagrams(door, shared_port_door(door->port, i == 0 ? 4 : 6));
        if (own[2 + i].revents != 0)
            take_connection(door, door->tcp[i]);
    }
}
