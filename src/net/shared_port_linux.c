#include "net/shared_port.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "net/listener.h"
#include "net/udp_linux.h"
#include "transport/limits.h"

#define IDLE_BUFFER (64u * 1024u)
#define DRAIN_BATCHES 64u /* of an empty seat: more than its small buffer holds */
#define ANY_PORT_TRIES 16u

struct shared_port {
    uint16_t port;
    bool has_family[2]; /* IPv4, IPv6 */
    struct address bind_to[2];
    struct udp_socket *door[2];
    unsigned threads, seats;
    struct udp_listener *seat[SHARED_PORT_SEATS_MAX]; /* seat n at n - 1 */
    struct udp_batch *batch;
};

/* The sockets of a family count from 0, the door, in the order in which they were bound. A load
 * past a packet's end gives 0, too. */
static bool steer(const struct udp_socket *door, unsigned seats, unsigned threads)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 1),              /*  0: the seat */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 16, 0),      /*  1: none */
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, seats, 15, 0),  /*  2: no such */
        BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, 1),             /*  3 */
        BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, threads),       /*  4 */
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1),             /*  5: its first socket */
        BPF_STMT(BPF_ST, 0),                                /*  6 */
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),              /*  7: the packet's type */
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x10, 2, 0),    /*  8: sealed? */
        BPF_STMT(BPF_LD | BPF_MEM, 0),                      /*  9: no, the first thread's */
        BPF_STMT(BPF_RET | BPF_A, 0),                       /* 10 */
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 4),              /* 11: connection id, last byte */
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, LANES_MAX - 1), /* 12: its lane */
        BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, threads),       /* 13 */
        BPF_STMT(BPF_MISC | BPF_TAX, 0),                    /* 14 */
        BPF_STMT(BPF_LD | BPF_MEM, 0),                      /* 15 */
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),             /* 16 */
        BPF_STMT(BPF_RET | BPF_A, 0),                       /* 17 */
        BPF_STMT(BPF_RET | BPF_K, 0),                       /* 18: the door */
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    return setsockopt(door->descriptor, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
                      sizeof(program)) == 0;
}

static bool steer_all(const struct shared_port *shared, struct error *error)
{
    for (unsigned i = 0; i < 2; i++) {
        if (shared->door[i] != NULL && !steer(shared->door[i], shared->seats, shared->threads))
            return error_set_errno(error, errno,
                                   "this system cannot share a UDP port among clients");
    }
    return true;
}

/* As a listener's first sockets: bound without SO_REUSEPORT, so that a port which anybody else has,
 * an earlier server too, counts as taken. */
static bool open_doors(struct shared_port *shared, uint16_t port, struct error *error)
{
    int one = 1;
    for (unsigned i = 0; i < 2; i++) {
        struct error cause = {0};
        if (!shared->has_family[i])
            continue;
        shared->bind_to[i].port = port;
        shared->door[i] = udp_open(i == 0 ? 4 : 6, &shared->bind_to[i], false, &cause);
        if (shared->door[i] == NULL) {
            if (cause.os_errno != EAFNOSUPPORT &&
                (cause.os_errno != EADDRNOTAVAIL || !shared->has_family[1 - i])) {
                *error = cause;
                return false;
            }
            shared->has_family[i] = false; /* a system without this family */
            continue;
        }
        if (port == 0)
            port = udp_local_port(shared->door[i]);
        if (setsockopt(shared->door[i]->descriptor, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)))
            return error_set_errno(error, errno, "cannot share UDP port %u", port);
    }
    shared->port = port;
    if (shared->door[0] == NULL && shared->door[1] == NULL)
        return error_set(error, ERROR_IO, "this system has neither IPv4 nor IPv6");
    return true; /* nothing to steer before there is a seat */
}

static void close_doors(struct shared_port *shared)
{
    for (unsigned i = 0; i < 2; i++) {
        udp_close(shared->door[i]);
        shared->door[i] = NULL;
    }
}

struct shared_port *shared_port_open(const struct address *bind_to, uint16_t port, unsigned threads,
                                     struct error *error)
{
    struct shared_port *shared = calloc(1, sizeof(*shared));
    struct error cause = {0};
    bool opened = false;
    if (shared != NULL)
        shared->batch = udp_batch_new();
    if (shared == NULL || shared->batch == NULL) {
        shared_port_free(shared);
        error_set(error, ERROR_MEMORY, "out of memory for a port");
        return NULL;
    }
    shared->threads = threads < 1 ? 1 : threads > LANES_MAX ? LANES_MAX : threads;
    /* The system's choice for one family may be taken in the other. */
    for (unsigned i = 0; !opened && i < (port == 0 ? ANY_PORT_TRIES : 1); i++) {
        close_doors(shared);
        error_clear(&cause);
        for (unsigned at = 0; at < 2; at++) {
            uint8_t family = at == 0 ? 4 : 6;
            shared->has_family[at] = bind_to == NULL || bind_to->family == family;
            shared->bind_to[at] = bind_to != NULL ? *bind_to : (struct address){.family = family};
        }
        opened = open_doors(shared, port, &cause);
    }
    if (opened)
        return shared;
    error_set_errno(error, cause.os_errno, "cannot listen on UDP port %u", port);
    shared_port_free(shared);
    return NULL;
}

void shared_port_free(struct shared_port *shared)
{
    if (shared == NULL)
        return;
    for (unsigned i = 0; i < shared->seats; i++)
        udp_listener_free(shared->seat[i]);
    close_doors(shared);
    udp_batch_free(shared->batch);
    free(shared);
}

uint16_t shared_port_number(const struct shared_port *shared)
{
    return shared->port;
}

struct udp_socket *shared_port_door(const struct shared_port *shared, uint8_t family)
{
    return shared->door[family == 4 ? 0 : 1];
}

unsigned shared_port_add_seat(struct shared_port *shared, struct error *error)
{
    struct udp_socket *sockets[LANES_MAX][2] = {0};
    bool good = shared->seats < SHARED_PORT_SEATS_MAX;
    for (unsigned i = 0; good && i < 2; i++) {
        for (unsigned thread = 0; good && shared->has_family[i] && thread < shared->threads;
             thread++) {
            struct address any = shared->bind_to[i];
            any.port = shared->port;
            sockets[thread][i] = udp_open(i == 0 ? 4 : 6, &any, true, error);
            good = sockets[thread][i] != NULL;
            if (good)
                udp_set_buffers(sockets[thread][i], IDLE_BUFFER, IDLE_BUFFER);
        }
    }
    struct udp_listener *seat =
        good ? udp_listener_of(sockets, shared->threads, shared->port, error) : NULL;
    if (seat == NULL) {
        /* Those of them that were opened count for the filter, and would be in the next seat's
         * place: none must stay. */
        for (unsigned thread = 0; thread < LANES_MAX; thread++)
            for (unsigned i = 0; i < 2; i++)
                udp_close(sockets[thread][i]);
        error_set(error, ERROR_LIMIT, "there is no room for more clients");
        return 0;
    }
    shared->seat[shared->seats++] = seat;
    if (steer_all(shared, error))
        return shared->seats;
    udp_listener_free(shared->seat[--shared->seats]);
    return 0;
}

static void for_each(struct shared_port *shared, unsigned seat,
                     void (*function)(struct shared_port *, struct udp_socket *))
{
    for (unsigned thread = 0; thread < shared->threads; thread++) {
        for (unsigned i = 0; i < 2; i++) {
            struct udp_socket *socket =
                udp_listener_socket(shared->seat[seat - 1], thread, i == 0 ? 4 : 6);
            if (socket != NULL)
                function(shared, socket);
        }
    }
}

static void drain(struct shared_port *shared, struct udp_socket *socket)
{
    for (unsigned i = 0; i < DRAIN_BATCHES && udp_receive(socket, shared->batch); i++)
        continue;
}

static void widen(struct shared_port *shared, struct udp_socket *socket)
{
    drain(shared, socket);
    udp_set_buffers(socket, UDP_RECEIVE_WANTED, UDP_SEND_WANTED);
    udp_forget_drops(socket);
}

static void shrink(struct shared_port *shared, struct udp_socket *socket)
{
    udp_set_buffers(socket, IDLE_BUFFER, IDLE_BUFFER);
    drain(shared, socket);
}

struct udp_listener *shared_port_seat(struct shared_port *shared, unsigned seat)
{
    for_each(shared, seat, widen);
    return shared->seat[seat - 1];
}

void shared_port_leave(struct shared_port *shared, unsigned seat)
{
    for_each(shared, seat, shrink);
}
