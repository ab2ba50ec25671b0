/* Somebody on the path who cannot read it: sends datagrams to a running copy's UDP port, from the
 * copy's own address and port, as fast as asked. Run on the host with the port it needs no share of
 * an emulated path.
 *
 *   petrel-attack INTERFACE FIRST_PORT LAST_PORT PER_SECOND SECONDS   (or until SIGTERM)
 *
 * Watches an interface of layer 3 for datagrams to those ports and sends, in turn: random bytes,
 * what was seen again (replayed), its beginning (truncated), with one bit changed (forged), and
 * with a foreign number. Prints how many went. Needs the right to open raw sockets; IPv4. */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define SEEN_MAX 256u
#define PACKET_MAX 1500u
#define HEADERS (sizeof(struct iphdr) + sizeof(struct udphdr))
#define BATCH 32u

struct packet {
    size_t size;
    uint8_t bytes[PACKET_MAX]; /* from the IP header on */
};

struct attack {
    int watch, raw;
    uint16_t first_port, last_port;
    struct packet seen[SEEN_MAX];
    uint64_t seen_count;
    uint64_t sent;
    uint64_t random;
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t draw(struct attack *attack) /* xorshift64 */
{
    attack->random ^= attack->random << 13;
    attack->random ^= attack->random >> 7;
    attack->random ^= attack->random << 17;
    return attack->random;
}

static void open_sockets(struct attack *attack, const char *interface)
{
    int on = 1;
    struct sockaddr_ll where = {.sll_family = AF_PACKET,
                                .sll_protocol = htons(ETH_P_ALL),
                                .sll_ifindex = (int)if_nametoindex(interface)};
    attack->watch = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    attack->raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
    if (attack->watch < 0 || attack->raw < 0)
        die("raw sockets");
    /* A train comes whole, with the size of its datagrams in front. */
    if (setsockopt(attack->watch, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) != 0)
        die("PACKET_VNET_HDR");
    if (bind(attack->watch, (struct sockaddr *)&where, sizeof(where)) != 0)
        die(interface);
}

static void remember(struct attack *attack, const uint8_t *bytes, size_t size, size_t segment)
{
    struct iphdr ip;
    struct udphdr udp;
    if (size < HEADERS)
        return;
    memcpy(&ip, bytes, sizeof(ip));
    memcpy(&udp, bytes + sizeof(ip), sizeof(udp));
    uint16_t port = ntohs(udp.dest);
    if (ip.version != 4 || ip.ihl != 5 || ip.protocol != IPPROTO_UDP || port < attack->first_port ||
        port > attack->last_port)
        return;
    if (segment != 0 && size > HEADERS + segment)
        size = HEADERS + segment;
    if (size > PACKET_MAX)
        return;
    struct packet *packet = &attack->seen[attack->seen_count++ % SEEN_MAX];
    memcpy(packet->bytes, bytes, size);
    packet->size = size;
}

static void watch_once(struct attack *attack)
{
    static uint8_t bytes[70000];
    struct sockaddr_ll from;
    for (unsigned i = 0; i < 8; i++) {
        socklen_t length = sizeof(from);
        ssize_t got = recvfrom(attack->watch, bytes, sizeof(bytes), MSG_DONTWAIT,
                               (struct sockaddr *)&from, &length);
        struct virtio_net_hdr offload;
        if (got <= (ssize_t)sizeof(offload))
            return;
        memcpy(&offload, bytes, sizeof(offload));
        remember(attack, bytes + sizeof(offload), (size_t)got - sizeof(offload),
                 offload.gso_type == VIRTIO_NET_HDR_GSO_NONE ? 0 : offload.gso_size);
    }
}

static void spoil(struct attack *attack, struct packet *packet)
{
    uint8_t *payload = packet->bytes + HEADERS;
    size_t size = packet->size - HEADERS;
    uint64_t value = draw(attack);
    switch (attack->sent % 5) {
    case 0:
        for (size_t i = 0; i < size; i++)
            payload[i] = (uint8_t)draw(attack);
        break;
    case 1: /* replayed as it is */
        break;
    case 2:
        packet->size = HEADERS + value % (size + 1);
        break;
    case 3:
        if (size > 0)
            payload[(value >> 8) % size] ^= (uint8_t)(1u << (value & 7));
        break;
    default:
        if (size > 9) /* the five bytes of the number */
            memcpy(payload + 5, &value, value & 8 ? 5 : 2);
        break;
    }
}

static void prepare(struct attack *attack, struct packet *packet, struct sockaddr_in *to)
{
    uint64_t known = attack->seen_count < SEEN_MAX ? attack->seen_count : SEEN_MAX;
    *packet = attack->seen[draw(attack) % known];
    spoil(attack, packet);
    struct iphdr ip;
    struct udphdr udp;
    memcpy(&ip, packet->bytes, sizeof(ip));
    memcpy(&udp, packet->bytes + sizeof(ip), sizeof(udp));
    ip.tot_len = htons((uint16_t)packet->size);
    ip.check = 0; /* the kernel's part */
    udp.len = htons((uint16_t)(packet->size - sizeof(ip)));
    udp.check = 0; /* none: IPv4 allows it */
    memcpy(packet->bytes, &ip, sizeof(ip));
    memcpy(packet->bytes + sizeof(ip), &udp, sizeof(udp));
    *to = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {.s_addr = ip.daddr}};
}

static void send_batch(struct attack *attack)
{
    static struct packet packets[BATCH];
    struct sockaddr_in to[BATCH];
    struct iovec pieces[BATCH];
    struct mmsghdr messages[BATCH];
    memset(messages, 0, sizeof(messages));
    for (unsigned i = 0; i < BATCH; i++, attack->sent++) {
        prepare(attack, &packets[i], &to[i]);
        pieces[i] = (struct iovec){.iov_base = packets[i].bytes, .iov_len = packets[i].size};
        messages[i].msg_hdr = (struct msghdr){.msg_name = &to[i],
                                              .msg_namelen = sizeof(to[i]),
                                              .msg_iov = &pieces[i],
                                              .msg_iovlen = 1};
    }
    sendmmsg(attack->raw, messages, BATCH, 0);
}

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

int main(int argc, char **argv)
{
    static struct attack attack = {.random = 88172645463325252u};
    if (argc != 6) {
        fprintf(stderr, "petrel-attack INTERFACE FIRST_PORT LAST_PORT PER_SECOND SECONDS\n");
        return 1;
    }
    attack.first_port = (uint16_t)atoi(argv[2]);
    attack.last_port = (uint16_t)atoi(argv[3]);
    uint64_t rate = strtoull(argv[4], NULL, 10), seconds = strtoull(argv[5], NULL, 10);
    open_sockets(&attack, argv[1]);
    printf("ready\n");
    fflush(stdout);
    uint64_t end_ns = now_ns() + seconds * 1000000000u, start_ns = 0;
    signal(SIGTERM, stop);
    for (uint64_t now = now_ns(); now < end_ns && !stopped; now = now_ns()) {
        watch_once(&attack);
        if (start_ns == 0 && attack.seen_count > 0)
            start_ns = now;
        if (start_ns != 0 && attack.sent < (now - start_ns) / 1000u * rate / 1000000u)
            send_batch(&attack);
        else
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    printf("%llu sent, %llu seen\n", (unsigned long long)attack.sent,
           (unsigned long long)attack.seen_count);
    return 0;
}
