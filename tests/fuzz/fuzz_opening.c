/* An opening fed by a peer that holds the start secret and says whatever it likes, and by
 * strangers.
 *
 * The input is a script: its first byte chooses the end and the kind of path, then each step is an
 * operation, a size and as many bytes. Checked: memory, bounded sending, and that nobody finishes
 * without TLS. */
#include <stdint.h>
#include <string.h>

#include "base/cursor.h"
#include "base/units.h"
#include "transport/handshake_packet.h"

#include "drain_opening.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[32] = "a start secret for the fuzzer...";
static const uint8_t session_id[16] = "a session for it";

enum operation { PASS_TIME, STRANGER, PEER_BODY, PEER_BYTES, OPERATIONS };

struct run {
    struct opening *opening;
    struct packet_keys *peer;
    struct address from;
    uint64_t number, now_ns;
    uint32_t offset;
    uint64_t given, taken; /* bytes in and out */
    bool client, stream;
};

static void receive(struct run *run, const uint8_t *bytes, size_t size)
{
    opening_receive(run->opening, &run->from, bytes, size, run->now_ns);
    run->given += size;
}

static void drain(struct run *run)
{
    run->taken += drain_opening(run->opening, run->now_ns);
    require(run->client || run->stream || run->taken <= 3 * run->given);
}

/* `body` sealed as it stands: the fields of a handshake packet may lie. */
static void receive_body(struct run *run, const uint8_t *body, size_t size)
{
    uint8_t bytes[HANDSHAKE_CLEAR_SIZE + 256 + PACKET_TAG_SIZE];
    struct writer writer = writer_of(bytes, sizeof bytes);

    write_u8(&writer, HANDSHAKE_PACKET_TYPE);
    write_bytes(&writer, session_id, sizeof session_id);
    write_uint(&writer, run->number, 5);
    require(packet_keys_seal(run->peer, run->number, bytes, HANDSHAKE_CLEAR_SIZE, body, size,
                             writer.at));
    run->number++;
    receive(run, bytes, HANDSHAKE_CLEAR_SIZE + size + PACKET_TAG_SIZE);
}

/* The next bytes of the peer's stream. */
static void receive_bytes(struct run *run, const uint8_t *bytes, size_t size)
{
    struct handshake_packet packet = {
        .number = run->number++, .offset = run->offset, .bytes = bytes, .length = (uint16_t)size};
    uint8_t sealed[HANDSHAKE_OVERHEAD + 256];
    size_t sealed_size =
        handshake_packet_seal(run->peer, session_id, &packet, 0, sealed, sizeof sealed);
    require(sealed_size > 0);
    run->offset += (uint32_t)size;
    receive(run, sealed, sealed_size);
}

static bool step(struct run *run, struct reader *script)
{
    uint8_t operation = read_u8(script), size = read_u8(script);
    const uint8_t *bytes;

    run->from.bytes[3] = operation / OPERATIONS;
    if (operation % OPERATIONS == PASS_TIME) {
        run->now_ns += size * 20 * NS_PER_MS;
        drain(run);
        return !script->failed;
    }
    bytes = read_bytes(script, size);
    if (bytes == NULL)
        return false;
    if (operation % OPERATIONS == STRANGER)
        receive(run, bytes, size);
    else if (operation % OPERATIONS == PEER_BODY)
        receive_body(run, bytes, size);
    else
        receive_bytes(run, bytes, size);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader script = reader_of(data, size);
    uint8_t choice = read_u8(&script);
    struct run run = {.client = choice & 1, .stream = choice & 2, .from = {.family = 4}};
    struct opening_config config = {
        .client = run.client,
        .stream = run.stream,
        .hello = {1, 1, ROLE_SENDER, 4, true, 0x10, 0, 1472},
        .timeout_ns = 10 * NS_PER_S,
        .candidates = {{.family = 4, .port = 1}, {.family = 6, .port = 2}},
        .candidate_count = 2,
    };

    memcpy(config.secret, secret, sizeof secret);
    memcpy(config.session_id, session_id, sizeof session_id);
    run.opening = opening_new(&config, 0, NULL);
    run.peer = packet_keys_new_handshake(secret, session_id,
                                         run.client ? SERVER_TO_CLIENT : CLIENT_TO_SERVER, NULL);
    require(run.opening != NULL && run.peer != NULL);
    for (unsigned steps = 0; steps < 60 && step(&run, &script); steps++)
        drain(&run);
    drain(&run);
    opening_free(run.opening);
    packet_keys_free(run.peer);
    return 0;
}
