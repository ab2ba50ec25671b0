#include "measure/udp_probe.h"

#include <errno.h>
#include <ifaddrs.h>
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
#define KNOCK_TURN 2u   /* after which the other end is asked to knock */
#define FEW_SILENT_PERCENT 95u
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

/* ---- the sockets ---- */

static int open_socket(uint8_t family)
{
    int descriptor =
        socket(family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return -1;
    int one = 1, discover = IP_PMTUDISC_PROBE;
    if (family == 4) {
        setsockopt(descriptor, IPPROTO_IP, IP_RECVERR, &one, sizeof(one));
        setsockopt(descriptor, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
    } else {
        discover = IPV6_PMTUDISC_PROBE;
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_RECVERR, &one, sizeof(one));
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &discover, sizeof(discover));
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_DONTFRAG, &one, sizeof(one));
    }
    struct sockaddr_storage storage;
    struct address any = address_any(family, 0);
    socklen_t length = sockaddr_from_address(&storage, &any);
    if (bind(descriptor, (struct sockaddr *)&storage, length) == 0)
        return descriptor;
    close(descriptor);
    return -1;
}

bool udp_prober_open(struct udp_prober *prober, struct error *error)
{
    prober->descriptors[0] = open_socket(4);
    prober->descriptors[1] = open_socket(6);
    return prober->descriptors[0] >= 0 || prober->descriptors[1] >= 0 ||
           error_set_errno(error, errno, "cannot open a UDP socket");
}

void udp_prober_close(struct udp_prober *prober)
{
    for (unsigned i = 0; i < 2; i++) {
        if (prober->descriptors[i] >= 0)
            close(prober->descriptors[i]);
        prober->descriptors[i] = -1;
    }
}

static int socket_of(const struct udp_prober *prober, uint8_t family)
{
    return prober->descriptors[family == 4 ? 0 : 1];
}

static uint16_t local_port(const struct udp_prober *prober, uint8_t family)
{
    struct sockaddr_storage storage;
    struct address own;
    socklen_t length = sizeof(storage);
    int descriptor = socket_of(prober, family);
    if (descriptor < 0 || getsockname(descriptor, (struct sockaddr *)&storage, &length) != 0 ||
        !sockaddr_to_address(&own, &storage))
        return 0;
    return own.port;
}

static bool is_stopped(const struct udp_prober *prober)
{
    return prober->stop != NULL && *prober->stop != 0;
}

/* 0, or the errno. EMSGSIZE is the interface's own limit. */
static int send_probe(const struct udp_prober *prober, const struct address *to, uint8_t kind,
                      uint32_t number, size_t size)
{
    uint8_t packet[SIZE_MOST] = {0};
    memcpy(packet, prober->token, ECHO_TOKEN_SIZE);
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
        if (sendto(socket_of(prober, to->family), packet, size, 0, (struct sockaddr *)&storage,
                   length) >= 0)
            return 0;
        if (errno != ECONNREFUSED && errno != EHOSTUNREACH && errno != ENETUNREACH)
            break;
    }
    return errno;
}

static bool receive_reply(const struct udp_prober *prober, uint8_t family, struct reply *reply)
{
    uint8_t packet[SIZE_MOST];
    struct sockaddr_storage from;
    socklen_t length = sizeof(from);
    ssize_t got = recvfrom(socket_of(prober, family), packet, sizeof(packet), 0,
                           (struct sockaddr *)&from, &length);
    if (got < (ssize_t)ECHO_PACKET_SIZE || memcmp(packet, prober->token, ECHO_TOKEN_SIZE) != 0 ||
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
static bool receive_icmp(const struct udp_prober *prober, uint8_t family, struct address *to,
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
    if (recvmsg(socket_of(prober, family), &message, MSG_ERRQUEUE) < 0)
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
static void wait_for(const struct udp_prober *prober, uint8_t family, uint64_t until_ns)
{
    uint64_t now_ns = driver_now();
    if (until_ns <= now_ns)
        return;
    uint64_t left_ns = until_ns - now_ns;
    if (left_ns > 100 * NS_PER_MS)
        left_ns = 100 * NS_PER_MS; /* a signal may have come just before */
    struct pollfd waits = {.fd = socket_of(prober, family), .events = POLLIN};
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
    struct udp_prober *prober;
    const struct port_set *ports;
    struct probe_target *targets;
    unsigned count;
};

static void note_reply(struct port_walk *walk, const struct reply *reply)
{
    for (unsigned i = 0; i < walk->count; i++) {
        struct probe_target *target = &walk->targets[i];
        if (!address_same_host(&reply->from, &target->address))
            continue;
        if (reply->kind == ECHO_PORT)
            port_set_add(&target->answered, reply->port);
        target->knocks += reply->kind == ECHO_KNOCK;
    }
}

static void take_port_replies(struct port_walk *walk)
{
    struct reply reply;
    struct address about;
    struct probe_refusal refusal;
    for (uint8_t family = 4; family <= 6; family += 2) {
        while (receive_reply(walk->prober, family, &reply))
            note_reply(walk, &reply);
        while (receive_icmp(walk->prober, family, &about, &refusal)) {
            for (unsigned i = 0; i < walk->count; i++) {
                if (address_same_host(&about, &walk->targets[i].address))
                    merge_refusal(&walk->targets[i].refusal, &refusal);
            }
        }
    }
}

static void linger(struct port_walk *walk, uint64_t until_ns)
{
    const struct udp_prober *prober = walk->prober;
    while (driver_now() < until_ns && !is_stopped(prober)) {
        /* poll skips a descriptor below 0. */
        struct pollfd waits[2] = {{.fd = prober->descriptors[0], .events = POLLIN},
                                  {.fd = prober->descriptors[1], .events = POLLIN}};
        struct timespec time = {.tv_nsec = 10 * 1000 * 1000};
        uint64_t now_ns = driver_now();
        if (now_ns < until_ns && until_ns - now_ns < (uint64_t)time.tv_nsec)
            time.tv_nsec = (long)(until_ns - now_ns);
        ppoll(waits, 2, &time, NULL);
        take_port_replies(walk);
    }
}

static bool try_port(struct port_walk *walk, struct probe_target *target, uint16_t port)
{
    if (socket_of(walk->prober, target->address.family) < 0 ||
        port_set_has(&target->answered, port))
        return false;
    struct address to = target->address;
    to.port = port;
    int failed = send_probe(walk->prober, &to, ECHO_PORT, port, ECHO_PACKET_SIZE);
    if (failed != 0 && target->refusal.local_errno == 0)
        target->refusal.local_errno = failed;
    target->sent++;
    return true;
}

static void walk_once(struct port_walk *walk)
{
    uint64_t next_ns = driver_now();
    for (unsigned port = 0; port < 65536 && !is_stopped(walk->prober); port++) {
        if (!port_set_has(walk->ports, (uint16_t)port))
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

static bool all_answered(const struct port_walk *walk)
{
    for (unsigned i = 0; i < walk->count; i++) {
        if (port_set_count(&walk->targets[i].answered) < port_set_count(walk->ports))
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

static bool is_own_address(const struct address *address)
{
    struct ifaddrs *all = NULL;
    bool found = false;
    if (address->family == 0 || getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *at = all; at != NULL && !found; at = at->ifa_next) {
        struct sockaddr_storage storage = {0};
        struct address own;
        if (at->ifa_addr == NULL ||
            (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
            continue;
        memcpy(&storage, at->ifa_addr,
               at->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                   : sizeof(struct sockaddr_in));
        found = sockaddr_to_address(&own, &storage) && address_same_host(&own, address);
    }
    freeifaddrs(all);
    return found;
}

/* After our own packets, as a copy does it: an address translator then knows our port, and the
 * other end's firewall has forgotten what it dropped. */
static void after_first_turns(struct port_walk *walk)
{
    const struct udp_prober *prober = walk->prober;
    uint16_t ports[2] = {0, 0};
    unsigned all = port_set_count(walk->ports);
    for (unsigned i = 0; i < walk->count; i++) {
        struct probe_target *target = &walk->targets[i];
        uint8_t family = target->address.family;
        target->answered_at_once = port_set_count(&target->answered);
        if (target->answered_at_once * 100 < all * FEW_SILENT_PERCENT)
            ports[family == 4 ? 0 : 1] = local_port(prober, family);
    }
    if (prober->knock != NULL && (ports[0] != 0 || ports[1] != 0))
        prober->knock(prober->knock_context, ports[0], ports[1]);
}

void udp_probe_ports(struct udp_prober *prober, const struct port_set *ports,
                     struct probe_target *targets, unsigned count)
{
    struct port_walk walk = {.prober = prober, .ports = ports, .targets = targets, .count = count};
    for (unsigned turn = 1; turn <= PORT_TURNS && !is_stopped(prober); turn++) {
        walk_once(&walk);
        uint64_t until_ns = driver_now() + patience(prober);
        while (driver_now() < until_ns && !all_answered(&walk) && !is_stopped(prober))
            linger(&walk, driver_now() + 10 * NS_PER_MS);
        if (turn == KNOCK_TURN || (turn < KNOCK_TURN && all_answered(&walk)))
            after_first_turns(&walk);
        if (all_answered(&walk) || (turn >= SILENT_TURNS && is_silent(&walk)))
            break;
    }
    for (unsigned i = 0; i < count; i++) {
        struct probe_refusal *refusal = &targets[i].refusal;
        refusal->icmp_is_own = refusal->icmp_errno != 0 && is_own_address(&refusal->icmp_from);
    }
}

/* ---- loss and round trip ---- */

struct loss_run {
    struct udp_prober *prober;
    const struct address *to;
    uint64_t *sent_ns, *rtt_ns;
    unsigned count;
};

static void take_loss_replies(struct loss_run *run, struct probe_loss *loss)
{
    struct reply reply;
    while (receive_reply(run->prober, run->to->family, &reply)) {
        if (reply.kind != ECHO_LOSS || reply.number >= run->count ||
            run->rtt_ns[reply.number] != 0 || run->sent_ns[reply.number] == 0)
            continue;
        run->rtt_ns[reply.number] = driver_now() - run->sent_ns[reply.number];
        loss->answered++;
    }
    struct address about;
    struct probe_refusal refusal;
    while (receive_icmp(run->prober, run->to->family, &about, &refusal))
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

static void run_loss(struct loss_run *run, struct probe_loss *loss)
{
    struct udp_prober *prober = run->prober;
    uint64_t next_ns = driver_now();
    for (unsigned i = 0; i < run->count && !is_stopped(prober); i++) {
        run->sent_ns[i] = driver_now();
        loss->sent += send_probe(prober, run->to, ECHO_LOSS, i, LOSS_BYTES) == 0;
        next_ns += LOSS_GAP_NS;
        do {
            wait_for(prober, run->to->family, next_ns);
            take_loss_replies(run, loss);
        } while (driver_now() < next_ns && !is_stopped(prober));
    }
    uint64_t until_ns = driver_now() + patience(prober);
    while (driver_now() < until_ns && loss->answered < loss->sent && !is_stopped(prober)) {
        wait_for(prober, run->to->family, until_ns);
        take_loss_replies(run, loss);
    }
}

void udp_probe_loss(struct udp_prober *prober, const struct address *to, unsigned count,
                    struct probe_loss *loss)
{
    *loss = (struct probe_loss){0};
    struct loss_run run = {
        .prober = prober, .to = to, .count = count < ECHO_LOSS_MAX ? count : ECHO_LOSS_MAX};
    run.sent_ns = calloc(run.count, sizeof(*run.sent_ns));
    run.rtt_ns = calloc(run.count, sizeof(*run.rtt_ns));
    if (run.sent_ns != NULL && run.rtt_ns != NULL && socket_of(prober, to->family) >= 0) {
        run_loss(&run, loss);
        sum_up(&run, loss);
        if (loss->rtt_mean_ns != 0)
            prober->rtt_ns = loss->rtt_mean_ns + 4 * loss->rtt_jitter_ns;
    }
    free(run.sent_ns);
    free(run.rtt_ns);
}

/* ---- sizes ---- */

static void take_size_replies(const struct udp_prober *prober, uint8_t family, enum echo_kind kind,
                              struct probe_size *size)
{
    struct reply reply;
    struct address about;
    struct probe_refusal refusal;
    while (receive_reply(prober, family, &reply))
        size->answered += reply.kind == kind;
    while (receive_icmp(prober, family, &about, &refusal))
        merge_refusal(&size->refusal, &refusal);
}

void udp_probe_size(struct udp_prober *prober, const struct address *to, unsigned ip_bytes,
                    bool both_ways, struct probe_size *size)
{
    *size = (struct probe_size){0};
    enum echo_kind kind = both_ways ? ECHO_BOTH : ECHO_SIZE;
    unsigned headers = to->family == 4 ? 28 : 48;
    if (ip_bytes < headers + ECHO_PACKET_SIZE || ip_bytes > SIZE_MOST ||
        socket_of(prober, to->family) < 0)
        return;
    for (unsigned i = 0; i < SIZE_TRIES && size->answered == 0 && !is_stopped(prober); i++) {
        int failed = send_probe(prober, to, (uint8_t)kind, i, ip_bytes - headers);
        if (failed != 0)
            size->refusal.local_errno = failed;
        size->sent++;
        uint64_t until_ns = driver_now() + patience(prober);
        while (driver_now() < until_ns && size->answered == 0 && !is_stopped(prober)) {
            wait_for(prober, to->family, until_ns);
            take_size_replies(prober, to->family, kind, size);
        }
    }
}
