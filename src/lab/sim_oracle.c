/* See sim_oracle.h. */
#include "lab/sim_oracle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/block.h"
#include "base/cursor.h"
#include "transport/limits.h"

#define KEYS_MAX 1024u

/* A set of numbers that mostly rise from 0. */
struct bits {
    uint64_t *words;
    size_t count; /* words */
};

struct block_seen {
    bool begun, packed, ended;
    uint32_t length; /* when ended; else the furthest byte seen */
};

struct lane_seen {
    uint64_t next_number; /* sealed: above every number so far */
    struct bits accepted; /* opened */
    uint64_t accepted_next;
};

struct host_seen {
    bool present;
    unsigned peer;
    uint32_t connection_base;
    uint32_t credit;                         /* that reached this host */
    uint32_t credit_told;                    /* by this host */
    struct lane_seen lanes[STREAM_LANE + 1]; /* what this host receives */
    struct block_seen *blocks;               /* what this host sends */
    size_t block_capacity;
    struct sim_oracle_counts counts;
};

struct key_seen {
    uint64_t id; /* the key's first 8 bytes */
    struct bits numbers;
};

struct sim_oracle {
    struct host_seen hosts[SIM_HOSTS_MAX];
    struct key_seen keys[KEYS_MAX];
    size_t key_count;
    bool on_stream;
    char failure[240];
};

static void fail(struct sim_oracle *oracle, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void fail(struct sim_oracle *oracle, const char *format, ...)
{
    if (oracle->failure[0] != '\0') {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(oracle->failure, sizeof(oracle->failure), format, arguments);
    va_end(arguments);
}

static bool bits_has(const struct bits *bits, uint64_t number)
{
    return number / 64 < bits->count && (bits->words[number / 64] >> number % 64 & 1) != 0;
}

/* True when the number was new. */
static bool bits_add(struct bits *bits, uint64_t number)
{
    if (number / 64 >= bits->count) {
        size_t count = number / 64 * 2 + 64;
        uint64_t *words = realloc(bits->words, count * sizeof(*words));
        if (words == NULL) {
            abort();
        }
        memset(words + bits->count, 0, (count - bits->count) * sizeof(*words));
        bits->words = words;
        bits->count = count;
    }
    if (bits_has(bits, number)) {
        return false;
    }
    bits->words[number / 64] |= UINT64_C(1) << number % 64;
    return true;
}

struct sim_oracle *sim_oracle_new(void)
{
    struct sim_oracle *oracle = calloc(1, sizeof(*oracle));
    if (oracle == NULL) {
        abort();
    }
    return oracle;
}

void sim_oracle_free(struct sim_oracle *oracle)
{
    if (oracle == NULL) {
        return;
    }
    for (unsigned host = 0; host < SIM_HOSTS_MAX; host++) {
        for (unsigned lane = 0; lane <= STREAM_LANE; lane++) {
            free(oracle->hosts[host].lanes[lane].accepted.words);
        }
        free(oracle->hosts[host].blocks);
    }
    for (size_t i = 0; i < oracle->key_count; i++) {
        free(oracle->keys[i].numbers.words);
    }
    free(oracle);
}

void sim_oracle_add_host(struct sim_oracle *oracle, unsigned host, unsigned peer,
                         uint32_t connection_base)
{
    oracle->hosts[host].present = true;
    oracle->hosts[host].peer = peer;
    oracle->hosts[host].connection_base = connection_base;
}

void sim_oracle_grant(struct sim_oracle *oracle, unsigned host, uint32_t credit)
{
    if (credit > oracle->hosts[host].credit) {
        oracle->hosts[host].credit = credit;
    }
}

struct packet {
    uint8_t type;
    unsigned receiver, lane;
    uint64_t number;
};

/* False for handshake packets, which the oracle leaves to the opening's own tests. */
static bool packet_of(struct sim_oracle *oracle, const uint8_t *aad, size_t aad_size,
                      struct packet *packet)
{
    struct reader reader = reader_of(aad, aad_size);
    packet->type = read_u8(&reader);
    if (packet->type == 0x01) {
        return false;
    }
    uint32_t id = read_u32(&reader);
    packet->number = read_uint(&reader, 5);
    if (!reader_finished(&reader)) {
        fail(oracle, "a packet's clear header has %zu bytes", aad_size);
        return false;
    }
    packet->lane = oracle->on_stream ? STREAM_LANE : id % LANES_MAX;
    for (unsigned host = 0; host < SIM_HOSTS_MAX; host++) {
        if (oracle->hosts[host].present && oracle->hosts[host].connection_base == (id & ~15u)) {
            packet->receiver = host;
            return true;
        }
    }
    fail(oracle, "a packet for connection id %" PRIu32 ", which nobody has", id);
    return false;
}

static struct block_seen *block_seen(struct host_seen *host, uint32_t block)
{
    if (block >= host->block_capacity) {
        size_t capacity = (size_t)block * 2 + 64;
        struct block_seen *blocks = realloc(host->blocks, capacity * sizeof(*blocks));
        if (blocks == NULL) {
            abort();
        }
        memset(blocks + host->block_capacity, 0,
               (capacity - host->block_capacity) * sizeof(*blocks));
        host->blocks = blocks;
        host->block_capacity = capacity;
    }
    return &host->blocks[block];
}

static void sealed_data(struct sim_oracle *oracle, unsigned sender, const struct packet *packet,
                        const uint8_t *plain, size_t size)
{
    struct host_seen *host = &oracle->hosts[sender];
    struct reader reader = reader_of(plain, size);
    uint64_t place = read_uint(&reader, PACKET_PLACE_SIZE);
    uint32_t number = (uint32_t)(place >> 20);
    uint32_t offset = (uint32_t)(place & 0xFFFFF);
    size_t length = reader_left(&reader);
    bool packed = (packet->type & 2) != 0, ends = (packet->type & 1) != 0;
    if (reader.failed || length == 0 || offset + length > BLOCK_SIZE) {
        fail(oracle, "host %u sealed a piece of %zu bytes at %u", sender, length, offset);
        return;
    }
    struct block_seen *block = block_seen(host, number);
    if (!block->begun) {
        block->begun = true;
        block->packed = packed;
        if (++host->counts.blocks_begun > host->credit) {
            fail(oracle, "host %u began block %u, its %" PRIu64 "th, with credit for %u", sender,
                 number, host->counts.blocks_begun, host->credit);
        }
    }
    uint32_t end = offset + (uint32_t)length;
    bool contradicts = block->packed != packed || (block->ended && end > block->length) ||
                       (ends && end < block->length) ||
                       (block->ended && ends && end != block->length);
    if (contradicts || (block->ended && end == block->length && !ends)) {
        fail(oracle, "host %u: pieces of block %u contradict each other", sender, number);
    }
    block->ended |= ends;
    block->length = end > block->length ? end : block->length;
    host->counts.data_packets++;
    host->counts.data_bytes += length;
}

struct ack_frame {
    uint64_t largest;
    uint32_t credit;
    const uint8_t *bitmap;
    size_t bitmap_size;
};

/* Finds the ACK frame of a control packet, if there is one. */
static bool find_ack(struct sim_oracle *oracle, const uint8_t *plain, size_t size,
                     struct ack_frame *ack)
{
    static const uint8_t fixed_sizes[] = {[0x01] = 0, [0x04] = 6,  [0x05] = 8, [0x06] = 8,
                                          [0x07] = 4, [0x08] = 17, [0x09] = 0, [0x0b] = 0};
    struct reader reader = reader_of(plain, size);
    bool found = false;
    while (reader_left(&reader) > 0 && !reader.failed) {
        uint8_t type = read_u8(&reader);
        if (type == 0x00) {
            break; /* padding to the end */
        } else if (type == 0x02) {
            ack->largest = read_uint(&reader, 5);
            read_bytes(&reader, 6 + 4 + 6 + 6 + 4 + 4);
            ack->credit = read_u32(&reader);
            ack->bitmap_size = read_u16(&reader);
            ack->bitmap = read_bytes(&reader, ack->bitmap_size);
            found = true;
        } else if (type == 0x03) {
            read_uint(&reader, 6);
            read_bytes(&reader, read_u16(&reader));
        } else if (type == 0x0a) {
            read_u8(&reader);
            read_bytes(&reader, read_u16(&reader));
        } else if (type < sizeof(fixed_sizes)) {
            read_bytes(&reader, fixed_sizes[type]);
        } else {
            fail(oracle, "a frame of unknown type %u was sealed", type);
            return false;
        }
    }
    if (reader.failed) {
        fail(oracle, "a control packet of %zu bytes does not parse", size);
        return false;
    }
    return found;
}

static void sealed_ack(struct sim_oracle *oracle, unsigned sender, unsigned lane_index,
                       const struct ack_frame *ack)
{
    struct host_seen *host = &oracle->hosts[sender];
    const struct lane_seen *lane = &host->lanes[lane_index];
    if (lane->accepted_next == 0 || ack->largest + 1 != lane->accepted_next) {
        fail(oracle, "host %u lane %u: the ack's largest is %" PRIu64 ", %" PRIu64 " arrived",
             sender, lane_index, ack->largest, lane->accepted_next);
        return;
    }
    for (uint64_t i = 0; i < ack->bitmap_size * 8; i++) {
        bool told = (ack->bitmap[i / 8] >> i % 8 & 1) != 0;
        bool arrived = i < ack->largest && bits_has(&lane->accepted, ack->largest - 1 - i);
        if (told != arrived) {
            fail(oracle, "host %u lane %u: the ack says number %" PRIu64 " %s, it %s", sender,
                 lane_index, ack->largest - 1 - i, told ? "arrived" : "is missing",
                 arrived ? "arrived" : "did not");
            return;
        }
    }
    if (ack->credit < host->credit_told) {
        fail(oracle, "host %u took back credit: %u after %u", sender, ack->credit,
             host->credit_told);
    }
    host->credit_told = ack->credit;
}

void sim_oracle_on_stream(struct sim_oracle *oracle, bool on_stream)
{
    oracle->on_stream = on_stream;
}

void sim_oracle_sealed(struct sim_oracle *oracle, const uint8_t *aad, size_t aad_size,
                       const uint8_t *plain, size_t size)
{
    struct packet packet;
    if (!packet_of(oracle, aad, aad_size, &packet)) {
        return;
    }
    unsigned sender = oracle->hosts[packet.receiver].peer;
    struct lane_seen *lane = &oracle->hosts[packet.receiver].lanes[packet.lane];
    if (packet.number < lane->next_number) {
        fail(oracle, "host %u lane %u: number %" PRIu64 " after %" PRIu64, sender, packet.lane,
             packet.number, lane->next_number - 1);
    }
    lane->next_number = packet.number + 1;
    if ((packet.type & 0xF8) == 0x10) {
        sealed_data(oracle, sender, &packet, plain, size);
        return;
    }
    struct sim_oracle_counts *counts = &oracle->hosts[sender].counts;
    counts->control_packets++;
    struct ack_frame ack;
    if (find_ack(oracle, plain, size, &ack)) {
        counts->acks++;
        counts->ack_bytes += size + PACKET_OVERHEAD;
        sealed_ack(oracle, sender, packet.lane, &ack);
    }
}

void sim_oracle_opened(struct sim_oracle *oracle, const uint8_t *aad, size_t aad_size,
                       const uint8_t *plain, size_t size)
{
    struct packet packet;
    if (!packet_of(oracle, aad, aad_size, &packet)) {
        return;
    }
    struct lane_seen *lane = &oracle->hosts[packet.receiver].lanes[packet.lane];
    if (packet.number >= lane->next_number) {
        fail(oracle, "host %u lane %u took number %" PRIu64 ", which was never sealed",
             packet.receiver, packet.lane, packet.number);
        return;
    }
    bits_add(&lane->accepted, packet.number);
    if (packet.number >= lane->accepted_next) {
        lane->accepted_next = packet.number + 1;
    }
    struct ack_frame ack;
    if ((packet.type & 0xF8) != 0x10 && find_ack(oracle, plain, size, &ack)) {
        sim_oracle_grant(oracle, packet.receiver, ack.credit);
    }
}

void sim_oracle_pair(struct sim_oracle *oracle, const uint8_t key[AEAD_KEY_SIZE], uint64_t number)
{
    uint64_t id;
    memcpy(&id, key, sizeof(id));
    size_t at = 0;
    while (at < oracle->key_count && oracle->keys[at].id != id) {
        at++;
    }
    if (at == KEYS_MAX) {
        fail(oracle, "more than %u keys in one run", KEYS_MAX);
        return;
    }
    if (at == oracle->key_count) {
        oracle->keys[oracle->key_count++].id = id;
    }
    /* Within a key's epoch the low bits tell numbers apart. */
    if (!bits_add(&oracle->keys[at].numbers, number & (NUMBER_AHEAD_MAX - 1))) {
        fail(oracle, "key and number %" PRIu64 " were used twice", number);
    }
}

void sim_oracle_counts(const struct sim_oracle *oracle, unsigned host,
                       struct sim_oracle_counts *counts)
{
    *counts = oracle->hosts[host].counts;
    counts->credit = oracle->hosts[host].credit;
}

const char *sim_oracle_failure(const struct sim_oracle *oracle)
{
    return oracle->failure[0] != '\0' ? oracle->failure : NULL;
}
