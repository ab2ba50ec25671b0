/* A client's and a server's opening over a simulated path, in virtual time, from a seed.
 *
 * The path delays, drops, doubles and reorders datagrams, and lets an attacker add forged ones and
 * copies from other addresses. After every datagram that the server sends, its bounds are checked.
 */
#ifndef PETREL_TESTS_OPENING_PAIR_H
#define PETREL_TESTS_OPENING_PAIR_H

#include "base/random.h"
#include "base/units.h"
#include "transport/opening.h"

#define PAIR_PATHS 4
#define PAIR_QUEUE 4096
#define PAIR_ADDRESSES 64

struct pair_datagram {
    uint64_t at_ns;
    bool to_server;
    struct address from, to;
    size_t size;
    uint8_t bytes[1300];
};

struct pair {
    struct opening *client, *server;
    struct random random;
    uint64_t now_ns;
    /* The path. Path i joins client address i with server address i. */
    uint64_t delay_ns[PAIR_PATHS]; /* one way; 0: nothing passes */
    uint64_t jitter_ns;
    uint32_t loss, doubling, forging; /* chances in parts of 2^32 */
    uint32_t replaying;               /* the attacker sends a copy from an address of its own */
    struct pair_datagram *queue;
    size_t queue_count;
    /* What was seen. */
    struct {
        struct address address;
        uint64_t to_server_bytes, from_server_bytes;
    } tally[PAIR_ADDRESSES];
    size_t tally_count;
    uint64_t sent_by_client, sent_by_server; /* datagrams */
    size_t first_client_size;
};

struct address pair_client_address(unsigned path);
struct address pair_server_address(unsigned path);
/* A configuration that fits the other end's; secret and id are fixed. */
struct opening_config pair_config(bool client, unsigned paths);
void pair_init(struct pair *pair, const struct opening_config *client,
               const struct opening_config *server, uint64_t seed);
void pair_release(struct pair *pair);
/* Runs until both ends are settled (finished or failed), or the time is over. True if settled. */
bool pair_run(struct pair *pair, uint64_t until_ns);
/* Runs on whatever the states are. */
void pair_run_until(struct pair *pair, uint64_t until_ns);

#endif
