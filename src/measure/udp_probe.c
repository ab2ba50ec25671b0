#include "measure/udp_probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h> /* needs <time.h> before it */

#include "base/units.h"
#include "net/driver.h"
#include "net/sockaddr.h"

#define PORT_TURNS 5u   /* lost packets must not pass for closed ports */
#define SILENT_TURNS 3u /* when nothing answers at all */
#define PORT_GAP_NS (NS_PER_S / 2000)
#define LOSS_GAP_NS (NS_PER_S / 500)
#define LOSS_BYTES 72u /* 100 with IPv4's and UDP's headers */
#define SIZE_TRIES 5u
#define WAIT_LEAST_NS (200 * NS_PER_MS)
#define WAIT_MOST_NS (2 * NS_PER_S)
#define SIZE_MOST 9216u

struct reply {
    struct address from;
    uint8_t kind;
    uint16_t port;
    uint32_t number;
};

struct probe_socket {
    struct udp_prober *prober;
    int descriptor;
    uint8_t family;
};

/* ---- the socket ---- */

static bool open_socket(struct probe_socket *probe, struct udp_prober *prober, uint8_t family)
{
    *probe = (struct probe_socket){.prober = prober, .family = family};
    probe->descriptor =
        socket(family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe->descriptor < 0)
        return false;
    int one = 1, discover = IP_PMTUDISC_PROBE;
    if (family == 4) {
        setsockopt(probe->descriptor, IPPROTO_IP, IP_RECVERR, &one, sizeof(one));
        setsockopt(probe->descriptor, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
    } else {
        discover = IPV6_PMTUDISC_PROBE;
        setsockopt(probe->descriptor, IPPROTO_IPV6, IPV6_RECVERR, &one, sizeof(one));
        setsockopt(probe->descriptor, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &discover, sizeof(discover));
        setsockopt(probe->descriptor, IPPROTO_IPV6, IPV6_DONTFRAG, &one, sizeof(one));
    }
    return true;
}

static bool is_stopped(const struct udp_prober *prober)
{
    return prober->stop != NULL && *prober->stop != 0;
}

/* 0, or the errno. EMSGSIZE is the interface's own limit. */
static int send_probe(const struct probe_socket *probe, const struct address *to, uint8_t kind,
                      uint32_t number, size_t size)
{
    uint8_t packet[SIZE_MOST] = {0};
    memcpy(packet, probe->prober->token, ECHO_TOKEN_SIZE);
    uint8_t *rest = packet + ECHO_TOKEN_SIZE;
    rest[0] = kind;
    rest[2] = (uint8_t)(to->port >> 8);
    rest[3] = (uint8_t)to->port;
    for (unsigned i = 0; i < 4; i++)
        rest[4 + i] = (uint8_t)(number >> (24 - 8 * i));
    struct sockaddr_storage storage;
    socklen_t length = sockaddr_from_address(&storage, to);
    /* A pending ICMP error is reported by the next call, which then has to be made again. */
    for (unsigned i = 0; i < 3; i++) {
        if (sendto(probe->descriptor, packet, size, 0, (struct sockaddr *)&storage, length) >= 0)
            return 0;
        if (errno != ECONNREFUSED && errno != EHOSTUNREACH && errno != ENETUNREACH)
            break;
    }
    return errno;
}

static bool receive_reply(const struct probe_socket *probe, struct reply *reply)
{
    uint8_t packet[SIZE_MOST];
    struct sockaddr_storage from;
    socklen_t length = sizeof(from);
    ssize_t got =
        recvfrom(probe->descriptor, packet, sizeof(packet), 0, (struct sockaddr *)&from, &length);
    if (got < (ssize_t)ECHO_PACKET_SIZE ||
        memcmp(packet, probe->prober->token, ECHO_TOKEN_SIZE) != 0 ||
        !sockaddr_to_address(&reply->from, &from))
        return false;
    const uint8_t *rest = packet + ECHO_TOKEN_SIZE;
    reply->kind = rest[0];
    reply->port = (uint16_t)(rest[2] << 8 | rest[3]);
    reply->number =
        (uint32_t)rest[4] << 24 | (uint32_t)rest[5] << 16 | (uint32_t)rest[6] << 8 | rest[7];
    return true;
}

static void note_icmp(struct probe_refusal *refusal, const struct sock_extended_err *said,
                      uint16_t port)
{
    if (said->ee_origin == SO_EE_ORIGIN_LOCAL)
        return;
    if (said->ee_errno == EMSGSIZE) {
        uint16_t mtu = (uint16_t)(said->ee_info > UINT16_MAX ? UINT16_MAX : said->ee_info);
        if (refusal->icmp_mtu == 0 || mtu < refusal->icmp_mtu)
            refusal->icmp_mtu = mtu;
        return;
    }
    if (refusal->icmp_errno != 0)
        return;
    refusal->icmp_errno = (int)said->ee_errno;
    refusal->icmp_port = port;
    struct sockaddr_storage storage = {0};
    const struct sockaddr *offender = SO_EE_OFFENDER(said);
    memcpy(&storage, offender,
           offender->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                           : sizeof(struct sockaddr_in));
    sockaddr_to_address(&refusal->icmp_from, &storage);
}

/* Takes one message of the error queue; `to` is where the packet that it is about was sent. */
static bool receive_icmp(const struct probe_socket *probe, struct address *to,
                         struct probe_refusal *refusal)
{
    union {
        struct cmsghdr align;
        uint8_t bytes[512];
    } control;
    uint8_t packet[64];
    struct sockaddr_storage about;
    struct iovec part = {packet, sizeof(packet)};
    struct msghdr message = {.msg_name = &about,
                             .msg_namelen = sizeof(about),
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    if (recvmsg(probe->descriptor, &message, MSG_ERRQUEUE) < 0)
        return false;
    *refusal = (struct probe_refusal){0};
    if (!sockaddr_to_address(to, &about))
        return true;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at != NULL; at = CMSG_NXTHDR(&message, at)) {
        bool is_error = (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_RECVERR) ||
                        (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_RECVERR);
        if (is_error)
            note_icmp(refusal, (const void *)CMSG_DATA(at), to->port);
    }
    return true;
}

static void merge_refusal(struct probe_refusal *into, const struct probe_refusal *from)
{
    if (into->icmp_errno == 0 && from->icmp_errno != 0) {
        into->icmp_errno = from->icmp_errno;
        into->icmp_from = from->icmp_from;
        into->icmp_port = from->icmp_port;
    }
    if (from->icmp_mtu != 0 && (into->icmp_mtu == 0 || from->icmp_mtu < into->icmp_mtu))
        into->icmp_mtu = from->icmp_mtu;
}

/* Sleeps until something came or until `until_ns`. */
static void wait_for(const struct probe_socket *probe, uint64_t until_ns)
{
    uint64_t now_ns = driver_now();
    if (until_ns <= now_ns)
        return;
    uint64_t left_ns = until_ns - now_ns;
    if (left_ns > 100 * NS_PER_MS)
        left_ns = 100 * NS_PER_MS; /* a signal may have come just before */
    struct pollfd waits = {.fd = probe->descriptor, .events = POLLIN};
    struct timespec time = {.tv_sec = 0, .tv_nsec = (long)left_ns};
    ppoll(&waits, 1, &time, NULL);
}

static uint64_t patience(const struct udp_prober *prober)
{
    uint64_t wait_ns = prober->rtt_ns + prober->rtt_ns / 2;
    return wait_ns < WAIT_LEAST_NS  ? WAIT_LEAST_NS
           : wait_ns > WAIT_MOST_NS ? WAIT_MOST_NS
                                    : wait_ns;
}

/* ---- ports ---- */

struct port_walk {
    struct probe_socket sockets[2];
    bool has_socket[2];
    struct probe_target *targets;
    unsigned count;
};

static void take_port_replies(struct port_walk *walk)
{
    struct reply reply;
    struct address about;
    struct probe_refusal refusal;
    for (unsigned s = 0; s < 2; s++) {
        const struct probe_socket *probe = &walk->sockets[s];
        while (walk->has_socket[s] && receive_reply(probe, &reply)) {
            for (unsigned i = 0; i < walk->count; i++) {
                if (reply.kind == ECHO_PORT &&
                    address_same_host(&reply.from, &walk->targets[i].address))
                    port_set_add(&walk->targets[i].answered, reply.port);
            }
        }
        while (walk->has_socket[s] && receive_icmp(probe, &about, &refusal)) {
            for (unsigned i = 0; i < walk->count; i++) {
                if (address_same_host(&about, &walk->targets[i].address))
                    merge_refusal(&walk->targets[i].refusal, &refusal);
            }
        }
    }
}

static void linger(struct port_walk *walk, uint64_t until_ns)
{
    struct udp_prober *prober = walk->sockets[0].prober;
    while (driver_now() < until_ns && !is_stopped(prober)) {
        struct pollfd waits[2];
        unsigned count = 0;
        for (unsigned s = 0; s < 2; s++) {
            if (walk->has_socket[s])
                waits[count++] =
                    (struct pollfd){.fd = walk->sockets[s].descriptor, .events = POLLIN};
        }
        struct timespec time = {.tv_nsec = 10 * 1000 * 1000};
        uint64_t left_ns = until_ns - driver_now();
        if (left_ns < (uint64_t)time.tv_nsec)
            time.tv_nsec = (long)left_ns;
        ppoll(waits, count, &time, NULL);
        take_port_replies(walk);
    }
}

static bool try_port(struct port_walk *walk, struct probe_target *target, uint16_t port)
{
    unsigned s = target->address.family == 4 ? 0 : 1;
    if (!walk->has_socket[s] || port_set_has(&target->answered, port))
        return false;
    struct address to = target->address;
    to.port = port;
    int failed = send_probe(&walk->sockets[s], &to, ECHO_PORT, port, ECHO_PACKET_SIZE);
    if (failed != 0 && target->refusal.local_errno == 0)
        target->refusal.local_errno = failed;
    target->sent++;
    return true;
}

static void walk_once(struct port_walk *walk, const struct port_set *ports)
{
    uint64_t next_ns = driver_now();
    for (unsigned port = 0; port < 65536 && !is_stopped(walk->sockets[0].prober); port++) {
        if (!port_set_has(ports, (uint16_t)port))
            continue;
        for (unsigned i = 0; i < walk->count; i++) {
            if (!try_port(walk, &walk->targets[i], (uint16_t)port))
                continue;
            next_ns += PORT_GAP_NS;
            /* Naps of less than a millisecond cost more than they are worth. */
            if (next_ns > driver_now() + NS_PER_MS)
                linger(walk, next_ns);
        }
    }
}

static bool all_answered(const struct port_walk *walk, const struct port_set *ports)
{
    for (unsigned i = 0; i < walk->count; i++) {
        if (port_set_count(&walk->targets[i].answered) < port_set_count(ports))
            return false;
    }
    return true;
}

static bool is_silent(const struct port_walk *walk)
{
    unsigned answered = 0;
    for (unsigned i = 0; i < walk->count; i++)
        answered += port_set_count(&walk->targets[i].answered);
    return answered == 0;
}

void udp_probe_ports(struct udp_prober *prober, const struct port_set *ports,
                     struct probe_target *targets, unsigned count)
{
    struct port_walk walk = {.targets = targets, .count = count};
    for (unsigned s = 0; s < 2; s++)
        walk.has_socket[s] = open_socket(&walk.sockets[s], prober, s == 0 ? 4 : 6);
    for (unsigned turn = 0; turn < PORT_TURNS && !is_stopped(prober); turn++) {
        walk_once(&walk, ports);
        uint64_t until_ns = driver_now() + patience(prober);
        while (driver_now() < until_ns && !all_answered(&walk, ports) && !is_stopped(prober))
            linger(&walk, driver_now() + 10 * NS_PER_MS);
        if (all_answered(&walk, ports) || (turn + 1 >= SILENT_TURNS && is_silent(&walk)))
            break;
    }
    for (unsigned s = 0; s < 2; s++) {
        if (walk.has_socket[s])
            close(walk.sockets[s].descriptor);
    }
}

/* ---- loss and round trip ---- */

struct loss_run {
    struct probe_socket probe;
    uint64_t *sent_ns, *rtt_ns;
    unsigned count;
};

static void take_loss_replies(struct loss_run *run, struct probe_loss *loss)
{
    struct reply reply;
    while (receive_reply(&run->probe, &reply)) {
        if (reply.kind != ECHO_LOSS || reply.number >= run->count ||
            run->rtt_ns[reply.number] != 0 || run->sent_ns[reply.number] == 0)
            continue;
        run->rtt_ns[reply.number] = driver_now() - run->sent_ns[reply.number];
        loss->answered++;
    }
    struct address about;
    struct probe_refusal refusal;
    while (receive_icmp(&run->probe, &about, &refusal))
        ;
}

static void sum_up(const struct loss_run *run, struct probe_loss *loss)
{
    uint64_t sum = 0, deviation = 0;
    for (unsigned i = 0; i < run->count; i++) {
        uint64_t rtt_ns = run->rtt_ns[i];
        sum += rtt_ns;
        if (rtt_ns != 0 && (loss->rtt_min_ns == 0 || rtt_ns < loss->rtt_min_ns))
            loss->rtt_min_ns = rtt_ns;
    }
    if (loss->answered == 0)
        return;
    loss->rtt_mean_ns = sum / loss->answered;
    for (unsigned i = 0; i < run->count; i++) {
        uint64_t rtt_ns = run->rtt_ns[i], mean_ns = loss->rtt_mean_ns;
        if (rtt_ns != 0)
            deviation += rtt_ns > mean_ns ? rtt_ns - mean_ns : mean_ns - rtt_ns;
    }
    loss->rtt_jitter_ns = deviation / loss->answered;
}

static void run_loss(struct loss_run *run, const struct address *to, struct probe_loss *loss)
{
    struct udp_prober *prober = run->probe.prober;
    uint64_t next_ns = driver_now();
    for (unsigned i = 0; i < run->count && !is_stopped(prober); i++) {
        run->sent_ns[i] = driver_now();
        loss->sent += send_probe(&run->probe, to, ECHO_LOSS, i, LOSS_BYTES) == 0;
        next_ns += LOSS_GAP_NS;
        do {
            wait_for(&run->probe, next_ns);
            take_loss_replies(run, loss);
        } while (driver_now() < next_ns && !is_stopped(prober));
    }
    uint64_t until_ns = driver_now() + patience(prober);
    while (driver_now() < until_ns && loss->answered < loss->sent && !is_stopped(prober)) {
        wait_for(&run->probe, until_ns);
        take_loss_replies(run, loss);
    }
}

void udp_probe_loss(struct udp_prober *prober, const struct address *to, unsigned count,
                    struct probe_loss *loss)
{
    *loss = (struct probe_loss){0};
    struct loss_run run = {.count = count < ECHO_LOSS_MAX ? count : ECHO_LOSS_MAX};
    run.sent_ns = calloc(run.count, sizeof(*run.sent_ns));
    run.rtt_ns = calloc(run.count, sizeof(*run.rtt_ns));
    if (run.sent_ns != NULL && run.rtt_ns != NULL && open_socket(&run.probe, prober, to->family)) {
        run_loss(&run, to, loss);
        close(run.probe.descriptor);
        sum_up(&run, loss);
        if (loss->rtt_mean_ns != 0)
            prober->rtt_ns = loss->rtt_mean_ns + 4 * loss->rtt_jitter_ns;
    }
    free(run.sent_ns);
    free(run.rtt_ns);
}

/* ---- sizes ---- */

static void take_size_replies(const struct probe_socket *probe, struct probe_size *size)
{
    struct reply reply;
    struct address about;
    struct probe_refusal refusal;
    while (receive_reply(probe, &reply))
        size->answered += reply.kind == ECHO_SIZE || reply.kind == ECHO_BOTH;
    while (receive_icmp(probe, &about, &refusal))
        merge_refusal(&size->refusal, &refusal);
}

void udp_probe_size(struct udp_prober *prober, const struct address *to, unsigned ip_bytes,
                    bool both_ways, struct probe_size *size)
{
    *size = (struct probe_size){0};
    unsigned headers = to->family == 4 ? 28 : 48;
    struct probe_socket probe;
    if (ip_bytes < headers + ECHO_PACKET_SIZE || ip_bytes > SIZE_MOST ||
        !open_socket(&probe, prober, to->family))
        return;
    for (unsigned i = 0; i < SIZE_TRIES && size->answered == 0 && !is_stopped(prober); i++) {
        int failed =
            send_probe(&probe, to, both_ways ? ECHO_BOTH : ECHO_SIZE, i, ip_bytes - headers);
        if (failed != 0)
            size->refusal.local_errno = failed;
        size->sent++;
        uint64_t until_ns = driver_now() + patience(prober);
        while (driver_now() < until_ns && size->answered == 0 && !is_stopped(prober)) {
            wait_for(&probe, until_ns);
            take_size_replies(&probe, size);
        }
    }
    close(probe.descriptor);
}
