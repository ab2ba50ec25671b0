/* The packets of a start at a listening server: what is taken keeps within its limits and is
 * written the same way; a gate lets nothing in that it should not; and an opening that is given
 * anything at all stays bounded, and finishes with nobody.
 *
 * The first byte chooses what the rest is: a packet for the codecs and the gate, or a script for an
 * opening of either side, each step a size and as many bytes behind the right ids. */
#include <stdint.h>
#include <string.h>

#include "base/cursor.h"
#include "base/units.h"
#include "transport/gate.h"

#include "drain_opening.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_codecs(const uint8_t *data, size_t size)
{
    struct gate gate = {.key = "the key of a fuzzed gate"};
    struct address from = {.family = 4, .port = 7};
    struct open_packet packet;
    struct hello_wishes wishes;
    uint8_t bytes[STREAM_PACKET_MAX], answer[COOKIE_PACKET_SIZE];
    uint8_t id[OPEN_ID_SIZE], cookie[COOKIE_SIZE];

    hello_wishes_decode(&wishes, data, size);
    require(wishes.policy <= 2 && wishes.path_loss_millionths <= 1000000);
    if (cookie_packet_read(id, cookie, data, size)) {
        require(cookie_packet_write(id, cookie, bytes) == size);
        require(memcmp(bytes, data, size) == 0);
    }
    require(gate_judge(&gate, &from, data, size, true, NS_PER_S, &packet, answer) != GATE_ADMIT);
    if (!open_packet_read(&packet, data, size))
        return;
    require(packet.body.offset + packet.body.length <= HANDSHAKE_STREAM_MAX);
    size_t written = open_packet_write(&packet, 0, bytes, sizeof bytes);
    require(written > 0 && written <= size && memcmp(bytes, data, written) == 0);
}

static bool nobody(void *context, const uint8_t key[HANDSHAKE_KEY_SIZE], struct error *error)
{
    (void)context;
    (void)key;
    return error_set(error, ERROR_REFUSED, "nobody is welcome");
}

struct run {
    struct opening *opening;
    uint64_t number, now_ns, given, taken;
    uint32_t offset;
    bool client;
};

static void drain(struct run *run)
{
    run->taken += drain_opening(run->opening, run->now_ns);
    require(run->client || run->taken <= 3 * run->given);
}

/* A step of size 255 is a second of silence, one of 254 a whole packet as it stands. */
static void step(struct run *run, uint8_t size, struct reader *script)
{
    struct address from = {.family = 4, .port = 1};
    struct open_packet packet = {.body = {.number = run->number++, .offset = run->offset}};
    uint8_t bytes[512];

    if (size == 255) {
        run->now_ns += NS_PER_S;
        return;
    }
    const uint8_t *told = read_bytes(script, size);
    if (told == NULL)
        return;
    size_t length = size;
    if (size == 254) {
        memcpy(bytes, told, size);
    } else {
        memcpy(packet.to, run->client ? "client's" : "server's", OPEN_ID_SIZE);
        memcpy(packet.from, run->client ? "server's" : "client's", OPEN_ID_SIZE);
        packet.body.bytes = told;
        packet.body.length = size;
        run->offset += size;
        length = open_packet_write(&packet, 0, bytes, sizeof bytes);
    }
    run->given += length;
    opening_receive(run->opening, &from, bytes, length, run->now_ns);
}

static void try_opening(bool client, const uint8_t *data, size_t size)
{
    static const struct handshake_identity identity = {.seed = "a seed", .judge = nobody};
    struct reader script = reader_of(data, size);
    struct run run = {.client = client};
    struct opening_config config = {
        .client = client,
        .hello = {1, 1, ROLE_SENDER, 4, true, 0x10, 0, 1472},
        .timeout_ns = 10 * NS_PER_S,
        .candidates = {{.family = 4, .port = 1}},
        .candidate_count = client,
        .identity = &identity,
    };

    memcpy(config.own_id, client ? "client's" : "server's", OPEN_ID_SIZE);
    memcpy(config.peer_id, "client's", OPEN_ID_SIZE);
    run.opening = opening_new(&config, 0, NULL);
    require(run.opening != NULL);
    for (unsigned steps = 0; steps < 60 && reader_left(&script) > 0; steps++) {
        step(&run, read_u8(&script), &script);
        if (script.failed)
            break;
        drain(&run);
    }
    opening_free(run.opening);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] % 3 == 0)
        try_codecs(data + 1, size - 1);
    else
        try_opening(data[0] % 3 == 1, data + 1, size - 1);
    return 0;
}
