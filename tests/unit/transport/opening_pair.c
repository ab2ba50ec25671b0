#include "opening_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct address pair_client_address(unsigned path)
{
    return (struct address){.family = 4, .bytes = {10, 0, 0, (uint8_t)(path + 1)}, .port = 40000};
}

struct address pair_server_address(unsigned path)
{
    return (struct address){.family = 4, .bytes = {192, 0, 2, (uint8_t)(path + 1)}, .port = 60001};
}

struct opening_config pair_config(bool client, unsigned paths)
{
    struct opening_config config = {
        .client = client,
        .hello = {.version_min = 1,
                  .version_max = 1,
                  .role = client ? ROLE_SENDER : ROLE_RECEIVER,
                  .lanes_max = 4,
                  .aes_hardware = true,
                  .connection_base = client ? 0x11111110 : 0x22222220,
                  .credit = client ? 0 : 96,
                  .datagram_max = 1472},
        .secret = "the secret that came through ssh",
        .session_id = "the session's id",
        .timeout_ns = 10 * NS_PER_S,
        .candidate_count = client ? paths : 0,
    };
    for (unsigned i = 0; i < config.candidate_count; i++)
        config.candidates[i] = pair_server_address(i);
    return config;
}

void pair_init(struct pair *pair, const struct opening_config *client,
               const struct opening_config *server, uint64_t seed)
{
    struct error error = {0};
    memset(pair, 0, sizeof *pair);
    random_seed(&pair->random, seed);
    pair->now_ns = 1000;
    pair->queue = calloc(PAIR_QUEUE, sizeof *pair->queue);
    pair->client = opening_new(client, pair->now_ns, &error);
    pair->server = opening_new(server, pair->now_ns, &error);
    assert_non_null(pair->client);
    assert_non_null(pair->server);
    for (unsigned i = 0; i < PAIR_PATHS; i++)
        pair->delay_ns[i] = 10 * NS_PER_MS;
}

void pair_release(struct pair *pair)
{
    opening_free(pair->client);
    opening_free(pair->server);
    free(pair->queue);
}

static unsigned path_of(const struct address *address)
{
    return (unsigned)address->bytes[3] - 1;
}

static void enqueue(struct pair *pair, const struct pair_datagram *datagram, uint64_t delay_ns)
{
    struct pair_datagram *slot = &pair->queue[pair->queue_count++];
    assert_true(pair->queue_count < PAIR_QUEUE);
    *slot = *datagram;
    slot->at_ns = pair->now_ns + delay_ns + random_below(&pair->random, pair->jitter_ns + 1);
}

/* An attacker who sees the path: changed copies, noise with a right beginning, old datagrams from
 * addresses of its choice. */
static void attack(struct pair *pair, const struct pair_datagram *datagram)
{
    struct pair_datagram forged = *datagram;

    if (random_chance(&pair->random, pair->replaying)) {
        forged.from.bytes[2] = 66;
        forged.from.bytes[3] = (uint8_t)random_below(&pair->random, 8);
        enqueue(pair, &forged, random_below(&pair->random, 40 * NS_PER_MS));
    }
    if (!random_chance(&pair->random, pair->forging))
        return;
    forged = *datagram;
    forged.from.bytes[2] = 77;
    switch (random_below(&pair->random, 3)) {
    case 0:
        forged.bytes[random_below(&pair->random, forged.size)] ^=
            (uint8_t)(1u + random_below(&pair->random, 255));
        break;
    case 1:
        for (size_t i = 17; i < forged.size; i++)
            forged.bytes[i] = (uint8_t)random_next(&pair->random);
        break;
    default:
        forged.size = random_below(&pair->random, forged.size);
        break;
    }
    enqueue(pair, &forged, random_below(&pair->random, 40 * NS_PER_MS));
}

static void transmit(struct pair *pair, struct pair_datagram *datagram)
{
    unsigned path = path_of(datagram->to_server ? &datagram->to : &datagram->from);
    uint64_t delay_ns = path < PAIR_PATHS ? pair->delay_ns[path] : 0;

    attack(pair, datagram);
    if (delay_ns == 0 || random_chance(&pair->random, pair->loss))
        return;
    enqueue(pair, datagram, delay_ns);
    if (random_chance(&pair->random, pair->doubling))
        enqueue(pair, datagram, delay_ns);
}

static size_t tally_index(struct pair *pair, const struct address *address)
{
    size_t i = 0;
    while (i < pair->tally_count && !address_equal(&pair->tally[i].address, address))
        i++;
    if (i == pair->tally_count) {
        assert_true(pair->tally_count < PAIR_ADDRESSES);
        pair->tally[pair->tally_count++].address = *address;
    }
    return i;
}

/* Three times what an address sent may go to it; more only where the client was proved to be. */
static void check_amplification(struct pair *pair, const struct address *to, size_t size)
{
    size_t i = tally_index(pair, to);
    const struct opening_result *result = opening_result(pair->server);

    pair->tally[i].from_server_bytes += size;
    if (result != NULL && address_equal(&result->address, to))
        return;
    assert_true(pair->tally[i].from_server_bytes <= 3 * pair->tally[i].to_server_bytes);
}

static void drain(struct pair *pair, bool from_client)
{
    struct pair_datagram datagram = {.to_server = from_client};
    struct opening *end = from_client ? pair->client : pair->server;

    while ((datagram.size = opening_send(end, &datagram.to, datagram.bytes, sizeof datagram.bytes,
                                         pair->now_ns)) > 0) {
        if (from_client) {
            if (pair->sent_by_client++ == 0)
                pair->first_client_size = datagram.size;
            datagram.from = pair_client_address(path_of(&datagram.to));
        } else {
            pair->sent_by_server++;
            check_amplification(pair, &datagram.to, datagram.size);
            datagram.from = pair_server_address(path_of(&datagram.to));
            if (datagram.to.bytes[2] != 0)
                continue; /* to the attacker: gone */
        }
        transmit(pair, &datagram);
    }
}

static void deliver(struct pair *pair, size_t index)
{
    struct pair_datagram datagram = pair->queue[index];
    struct opening *end = datagram.to_server ? pair->server : pair->client;

    pair->queue[index] = pair->queue[--pair->queue_count];
    if (datagram.to_server)
        pair->tally[tally_index(pair, &datagram.from)].to_server_bytes += datagram.size;
    opening_receive(end, &datagram.from, datagram.bytes, datagram.size, pair->now_ns);
}

/* Moves to the next event, at most to `until_ns`; false when there is none before. */
static bool step(struct pair *pair, uint64_t until_ns)
{
    uint64_t next = opening_deadline(pair->client), other = opening_deadline(pair->server);
    size_t due = SIZE_MAX;

    if (other < next)
        next = other;
    for (size_t i = 0; i < pair->queue_count; i++) {
        if (pair->queue[i].at_ns < next) {
            next = pair->queue[i].at_ns;
            due = i;
        }
    }
    if (next >= until_ns) {
        pair->now_ns = until_ns;
        return false;
    }
    if (next > pair->now_ns)
        pair->now_ns = next;
    if (due != SIZE_MAX)
        deliver(pair, due);
    drain(pair, true);
    drain(pair, false);
    assert_true(opening_deadline(pair->client) > pair->now_ns);
    assert_true(opening_deadline(pair->server) > pair->now_ns);
    return true;
}

bool pair_run(struct pair *pair, uint64_t until_ns)
{
    while (opening_state(pair->client) == OPENING_RUNNING ||
           opening_state(pair->server) == OPENING_RUNNING) {
        if (!step(pair, until_ns))
            return false;
    }
    return true;
}

void pair_run_until(struct pair *pair, uint64_t until_ns)
{
    while (step(pair, until_ns))
        continue;
}
