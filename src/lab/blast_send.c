#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "lab/blast.h"
#include "lab/link_emulator.h"

#define IPV4_AND_UDP 28u
#define IPV6_AND_UDP 48u
#define PLAIN_BATCH 64u
#define SLEEP_MIN_NS (60 * NS_PER_US) /* a sleep may be that late; below it, spin */
#define SEND_BUFFER (8 << 20)

struct sender {
    const struct blast_options *options;
    int fd;
    uint64_t next_number;
    uint8_t *bytes; /* a whole train */
};

static void fill(struct sender *sender, uint64_t count)
{
    uint64_t now_ns = link_now();
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *datagram = sender->bytes + i * sender->options->size_bytes;
        memcpy(datagram, &sender->next_number, 8);
        memcpy(datagram + 8, &now_ns, 8);
        sender->next_number++;
    }
}

static bool send_train(struct sender *sender, uint64_t count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
    struct iovec part = {sender->bytes, count * sender->options->size_bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 1) {
        uint16_t size = (uint16_t)sender->options->size_bytes;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_UDP;
        header->cmsg_type = UDP_SEGMENT;
        header->cmsg_len = CMSG_LEN(sizeof size);
        memcpy(CMSG_DATA(header), &size, sizeof size);
    }
    return sendmsg(sender->fd, &message, 0) >= 0;
}

static bool send_plain(struct sender *sender, uint64_t count)
{
    struct mmsghdr messages[PLAIN_BATCH] = {0};
    struct iovec parts[PLAIN_BATCH];
    for (uint64_t done = 0; done < count;) {
        uint64_t batch = count - done < PLAIN_BATCH ? count - done : PLAIN_BATCH;
        for (uint64_t i = 0; i < batch; i++) {
            parts[i].iov_base = sender->bytes + (done + i) * sender->options->size_bytes;
            parts[i].iov_len = sender->options->size_bytes;
            messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
        }
        int sent = sendmmsg(sender->fd, messages, (unsigned)batch, 0);
        if (sent <= 0)
            return false;
        done += (uint64_t)sent;
    }
    return true;
}

static void sleep_until(uint64_t time_ns)
{
    for (uint64_t now_ns = link_now(); now_ns < time_ns; now_ns = link_now()) {
        uint64_t left_ns = time_ns - now_ns;
        if (left_ns <= SLEEP_MIN_NS)
            continue;
        left_ns -= SLEEP_MIN_NS;
        struct timespec pause = {.tv_sec = (time_t)(left_ns / NS_PER_S),
                                 .tv_nsec = (long)(left_ns % NS_PER_S)};
        nanosleep(&pause, NULL);
    }
}

static bool blast(struct sender *sender, struct error *error)
{
    const struct blast_options *options = sender->options;
    uint64_t wire_bytes = options->size_bytes +
                          (options->address.ss_family == AF_INET6 ? IPV6_AND_UDP : IPV4_AND_UDP);
    uint64_t start_ns = link_now();
    for (;;) {
        uint64_t train = options->train, now_ns = link_now();
        if (options->count != 0 && options->count - sender->next_number < train)
            train = options->count - sender->next_number;
        if (train == 0 || (options->duration_ns != 0 && now_ns - start_ns >= options->duration_ns))
            return true;
        if (options->rate_bps != 0) {
            double offset = (double)sender->next_number * (double)wire_bytes * 8e9;
            sleep_until(start_ns + (uint64_t)(offset / (double)options->rate_bps));
        }
        fill(sender, train);
        bool sent = options->plain ? send_plain(sender, train) : send_train(sender, train);
        /* Nobody listens yet, or a full queue: a blast goes on. */
        if (!sent && errno != ECONNREFUSED && errno != ENOBUFS && errno != EAGAIN)
            return error_set_errno(error, errno, "cannot send");
    }
}

static void report(const struct sender *sender, uint64_t elapsed_ns)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"sent\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.3f}\n",
           (unsigned long long)sender->next_number,
           (unsigned long long)(sender->next_number * sender->options->size_bytes),
           (double)elapsed_ns / 1e9, cpu);
}

bool blast_send(const struct blast_options *options, struct error *error)
{
    struct sender sender = {.options = options};
    int buffer = SEND_BUFFER;
    sender.fd = socket(options->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sender.fd < 0)
        return error_set_errno(error, errno, "cannot make a socket");
    (void)setsockopt(sender.fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    sender.bytes = calloc(options->train, options->size_bytes);
    bool done = false;
    if (sender.bytes == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a train");
    } else if (connect(sender.fd, (const struct sockaddr *)&options->address,
                       options->address_size) != 0) {
        error_set_errno(error, errno, "cannot reach the receiver");
    } else {
        uint64_t start_ns = link_now();
        done = blast(&sender, error);
        report(&sender, link_now() - start_ns);
    }
    free(sender.bytes);
    close(sender.fd);
    return done;
}
