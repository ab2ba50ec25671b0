/* The attacker of a simulated path (declared in sim_world.h): replays what it saw, at once and much
 * later, changes bits, lies about numbers and sizes, and makes datagrams up. It knows no key. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "lab/sim_world.h"

#define REMEMBERED 32u
#define LONGEST_WAIT_NS (2 * NS_PER_S)

struct remembered {
    struct address from, to;
    unsigned target;
    uint32_t size;
    uint8_t bytes[DATAGRAM_MAX];
};

struct sim_attacker {
    struct sim_attacker_config config;
    struct random random;
    struct remembered seen[REMEMBERED];
    unsigned count;
};

struct sim_attacker *sim_attacker_new(const struct sim_attacker_config *config, uint64_t seed)
{
    struct sim_attacker *attacker = calloc(1, sizeof(*attacker));
    if (attacker == NULL) {
        abort();
    }
    attacker->config = *config;
    random_seed(&attacker->random, seed);
    return attacker;
}

void sim_attacker_free(struct sim_attacker *attacker)
{
    free(attacker);
}

static struct address own_address(struct sim_attacker *attacker)
{
    struct address address = {
        .family = 4,
        .bytes = {203, 0, 113, (uint8_t)random_below(&attacker->random, SIM_ATTACKER_ADDRESSES)},
        .port = 666};
    return address;
}

unsigned sim_attacker_address(const struct address *address)
{
    bool own = address->family == 4 && address->bytes[0] == 203 && address->bytes[2] == 113 &&
               address->bytes[3] < SIM_ATTACKER_ADDRESSES;
    return own ? address->bytes[3] : SIM_ATTACKER_ADDRESSES;
}

static void remember(struct sim_attacker *attacker, unsigned target, const struct address *from,
                     const struct address *to, const uint8_t *bytes, uint32_t size)
{
    /* Old ones stay long: the first half is written once, the second is overwritten at random. */
    unsigned at = attacker->count;
    if (at == REMEMBERED) {
        at = REMEMBERED / 2 + (unsigned)random_below(&attacker->random, REMEMBERED / 2);
    } else {
        attacker->count++;
    }
    struct remembered *slot = &attacker->seen[at];
    slot->from = *from;
    slot->to = *to;
    slot->target = target;
    slot->size = size;
    memcpy(slot->bytes, bytes, size);
}

/* Changes a copy of something real so that it must be refused. */
static void falsify(struct sim_attacker *attacker, struct sim_event *event)
{
    struct random *random = &attacker->random;
    switch (random_below(random, 6)) {
    case 0: /* one bit, anywhere */
        event->bytes[random_below(random, event->size)] ^= (uint8_t)(1u << random_below(random, 8));
        break;
    case 1: /* cut short */
        event->size = (uint32_t)(1 + random_below(random, event->size));
        break;
    case 2: /* longer */
        if (event->size + 8 <= DATAGRAM_MAX) {
            memset(event->bytes + event->size, 0, 8);
            event->size += 8;
        }
        break;
    case 3: /* a number from the future */
        if (event->size > PACKET_HEADER_SIZE) {
            event->bytes[5 + random_below(random, 5)] ^= (uint8_t)(1 + random_below(random, 255));
        }
        break;
    case 4: /* another type */
        event->bytes[0] = (uint8_t)random_next(random);
        break;
    default: /* noise behind a true header */
        for (size_t i = PACKET_HEADER_SIZE; i < event->size; i++) {
            event->bytes[i] = (uint8_t)random_next(random);
        }
    }
}

static void inject(struct sim_attacker *attacker, struct sim_world *world, uint64_t delay_ns)
{
    struct random *random = &attacker->random;
    const struct remembered *model = &attacker->seen[random_below(random, attacker->count)];
    struct sim_event *event = sim_queue_make(world->queue);
    event->kind = SIM_EVENT_DATAGRAM;
    event->hostile = true;
    event->host = model->target;
    event->from = model->from;
    event->to = model->to;
    event->size = model->size;
    memcpy(event->bytes, model->bytes, model->size);
    /* Its path is as long as the true one: now and then it is a little earlier. */
    event->at_ns = world->now_ns + delay_ns +
                   random_below(random, LONGEST_WAIT_NS) / (1 + random_below(random, 1000));
    /* A true handshake packet that comes first from elsewhere would move the handshake there: who
     * can do that can as well drop it. Only a client's first one, which any address may send. */
    bool may_spoof = model->bytes[0] != 0x01 || model->size == DATAGRAM_MIN;
    if (attacker->config.spoof && may_spoof && random_below(random, 2) == 0) {
        event->from = own_address(attacker);
    }
    if (random_below(random, 3) != 0) {
        falsify(attacker, event);
    }
    sim_queue_push(world->queue, event);
}

void sim_attacker_saw(struct sim_attacker *attacker, struct sim_world *world, unsigned target,
                      const struct address *from, const struct address *to, const uint8_t *bytes,
                      uint32_t size, uint64_t delay_ns)
{
    if (attacker->config.share == 0 || !random_chance(&attacker->random, attacker->config.share)) {
        return;
    }
    remember(attacker, target, from, to, bytes, size);
    for (unsigned i = 0; i <= attacker->config.flood; i++) {
        inject(attacker, world, delay_ns);
    }
}
