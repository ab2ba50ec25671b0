#include <errno.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/units.h"
#include "lab/blast.h"
#include "lab/link_emulator.h"

#define BATCH 16u
#define MESSAGE_BYTES 65536u
#define NUMBERS_MAX (UINT64_C(1) << 29) /* a bitmap of 64 MiB, touched as far as it is used */
#define RECEIVE_BUFFER (64 << 20)

struct receiver {
    int fd;
    uint8_t *bytes;
    uint64_t *seen; /* a bit for each number */
    uint64_t packets, payload_bytes, unique, duplicates, out_of_order, highest;
    uint64_t first_ns, last_ns;
    uint64_t delay_min_ns, delay_max_ns;
    double delay_sum_ns;
    uint64_t buffers;   /* messages that the kernel handed out */
    uint64_t overflows; /* SO_RXQ_OVFL */
};

static void take_datagram(struct receiver *receiver, const uint8_t *bytes, size_t size,
                          uint64_t now_ns)
{
    uint64_t number, sent_ns;
    if (size < BLAST_HEADER)
        return;
    memcpy(&number, bytes, 8);
    memcpy(&sent_ns, bytes + 8, 8);
    if (number >= NUMBERS_MAX)
        return;
    receiver->packets++;
    receiver->payload_bytes += size;
    uint64_t bit = UINT64_C(1) << (number & 63), *word = &receiver->seen[number >> 6];
    if ((*word & bit) != 0) {
        receiver->duplicates++;
        return;
    }
    *word |= bit;
    receiver->unique++;
    if (number < receiver->highest)
        receiver->out_of_order++;
    else
        receiver->highest = number;
    uint64_t delay_ns = now_ns > sent_ns ? now_ns - sent_ns : 0;
    receiver->delay_sum_ns += (double)delay_ns;
    if (delay_ns < receiver->delay_min_ns)
        receiver->delay_min_ns = delay_ns;
    if (delay_ns > receiver->delay_max_ns)
        receiver->delay_max_ns = delay_ns;
}

static void take_message(struct receiver *receiver, struct mmsghdr *message, uint64_t now_ns)
{
    const uint8_t *bytes = message->msg_hdr.msg_iov->iov_base;
    size_t size = message->msg_len, segment = size;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message->msg_hdr); at != NULL;
         at = CMSG_NXTHDR(&message->msg_hdr, at)) {
        if (at->cmsg_level == SOL_UDP && at->cmsg_type == UDP_GRO) {
            int told;
            memcpy(&told, CMSG_DATA(at), sizeof told);
            if (told > 0)
                segment = (size_t)told;
        } else if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SO_RXQ_OVFL) {
            uint32_t lost;
            memcpy(&lost, CMSG_DATA(at), sizeof lost);
            receiver->overflows = lost;
        }
    }
    receiver->buffers++;
    for (size_t at = 0; at < size; at += segment)
        take_datagram(receiver, bytes + at, size - at < segment ? size - at : segment, now_ns);
}

static bool receive(struct receiver *receiver, struct error *error)
{
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    _Alignas(struct cmsghdr) char controls[BATCH][64];
    for (;;) {
        for (unsigned i = 0; i < BATCH; i++) {
            parts[i] = (struct iovec){receiver->bytes + i * MESSAGE_BYTES, MESSAGE_BYTES};
            messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &parts[i],
                                                       .msg_iovlen = 1,
                                                       .msg_control = controls[i],
                                                       .msg_controllen = sizeof controls[i]}};
        }
        int count = recvmmsg(receiver->fd, messages, BATCH, MSG_WAITFORONE, NULL);
        if (count < 0 && errno == EAGAIN && receiver->packets > 0)
            return true;
        if (count < 0 && errno != EAGAIN && errno != EINTR)
            return error_set_errno(error, errno, "cannot receive");
        uint64_t now_ns = link_now();
        for (int i = 0; i < count; i++)
            take_message(receiver, &messages[i], now_ns);
        if (count > 0) {
            receiver->last_ns = now_ns;
            if (receiver->first_ns == 0)
                receiver->first_ns = now_ns;
        }
    }
}

/* Runs of missing numbers below the highest that arrived. */
static uint64_t count_gaps(const struct receiver *receiver)
{
    uint64_t gaps = 0;
    bool inside = false;
    for (uint64_t i = 0; i < receiver->highest; i++) {
        bool missing = (receiver->seen[i >> 6] >> (i & 63) & 1) == 0;
        gaps += missing && !inside;
        inside = missing;
    }
    return gaps;
}

static void report(const struct receiver *receiver)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    double seconds = (double)(receiver->last_ns - receiver->first_ns) / 1e9;
    uint64_t lost = receiver->highest + 1 - receiver->unique, gaps = count_gaps(receiver);
    printf("{\"packets\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"bits_per_second\": %.0f, "
           "\"lost\": %llu, \"loss_runs\": %llu, \"mean_loss_run\": %.4f, \"duplicates\": %llu, "
           "\"out_of_order\": %llu, \"buffers\": %llu, \"socket_overflows\": %llu, "
           "\"delay_ms\": {\"min\": %.3f, \"mean\": %.3f, \"max\": %.3f}, \"cpu_seconds\": %.3f}\n",
           (unsigned long long)receiver->packets, (unsigned long long)receiver->payload_bytes,
           seconds, seconds > 0 ? (double)receiver->payload_bytes * 8 / seconds : 0.0,
           (unsigned long long)lost, (unsigned long long)gaps,
           gaps > 0 ? (double)lost / (double)gaps : 0.0, (unsigned long long)receiver->duplicates,
           (unsigned long long)receiver->out_of_order, (unsigned long long)receiver->buffers,
           (unsigned long long)receiver->overflows, (double)receiver->delay_min_ns / 1e6,
           receiver->delay_sum_ns / (double)receiver->unique / 1e6,
           (double)receiver->delay_max_ns / 1e6, cpu);
}

static bool make_file(const char *path, struct error *error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(error, errno, "cannot make %s", path);
    close(fd);
    return true;
}

static bool open_socket(struct receiver *receiver, const struct blast_options *options,
                        struct error *error)
{
    int on = 1, buffer = RECEIVE_BUFFER;
    struct timeval idle = {.tv_sec = (time_t)(options->idle_ns / NS_PER_S),
                           .tv_usec = (suseconds_t)(options->idle_ns % NS_PER_S / 1000)};
    receiver->fd = socket(options->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (receiver->fd < 0)
        return error_set_errno(error, errno, "cannot make a socket");
    if (setsockopt(receiver->fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) != 0)
        (void)setsockopt(receiver->fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    (void)setsockopt(receiver->fd, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof idle);
    (void)setsockopt(receiver->fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
    if (!options->plain)
        (void)setsockopt(receiver->fd, SOL_UDP, UDP_GRO, &on, sizeof on);
    if (bind(receiver->fd, (const struct sockaddr *)&options->address, options->address_size) != 0)
        return error_set_errno(error, errno, "cannot bind the address to receive on");
    return options->ready_path == NULL || make_file(options->ready_path, error);
}

bool blast_receive(const struct blast_options *options, struct error *error)
{
    struct receiver receiver = {.fd = -1, .delay_min_ns = TIME_NEVER};
    receiver.bytes = malloc((size_t)BATCH * MESSAGE_BYTES);
    receiver.seen = calloc(NUMBERS_MAX / 64, sizeof *receiver.seen);
    bool done = receiver.bytes != NULL && receiver.seen != NULL
                    ? open_socket(&receiver, options, error) && receive(&receiver, error)
                    : error_set(error, ERROR_MEMORY, "no memory to receive");
    if (done)
        report(&receiver);
    if (receiver.fd >= 0)
        close(receiver.fd);
    free(receiver.bytes);
    free(receiver.seen);
    return done;
}
