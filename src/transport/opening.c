#include "transport/opening.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "transport/opening_internal.h"

#define RESEND_MIN_NS (100 * NS_PER_MS)
#define RESEND_MAX_NS (2 * NS_PER_S)
#define REPLAY_BITS OPENING_REPLAY_BITS
#define NOBODY OPENING_NOBODY
#define SEARCH_FIRST_NS NS_PER_S
#define PUNCHES 3u /* packets to each address that is to be punched */

bool opening_fail(struct opening *opening)
{
    opening->state = OPENING_FAILED;
    opening->resend_ns = TIME_NEVER;
    opening->searching = false;
    wipe(opening->talk.result.secret, sizeof opening->talk.result.secret);
    return false;
}

static struct destination *add_destination(struct opening *opening, const struct address *address)
{
    unsigned index = opening->destination_count;

    if (index < OPENING_DESTINATIONS) {
        opening->destination_count++;
    } else {
        do
            index = opening->destination_oldest++ % OPENING_DESTINATIONS;
        while ((int)index == opening->current || (int)index == opening->stream);
    }
    opening->destinations[index] = (struct destination){.address = *address};
    return &opening->destinations[index];
}

static struct destination *find_destination(struct opening *opening, const struct address *address)
{
    for (unsigned i = 0; i < opening->destination_count; i++) {
        if (address_equal(&opening->destinations[i].address, address))
            return &opening->destinations[i];
    }
    return NULL;
}

void opening_owe(struct opening *opening, struct destination *to)
{
    to->owed = true;
    if (!destination_is_stream(to))
        to->next = opening->acknowledged;
}

bool opening_has_unacknowledged(const struct opening *opening)
{
    return !opening->only_stream && opening->acknowledged < opening->talk.out_size;
}

bool opening_is_waiting_client(const struct opening *opening)
{
    return opening->client && !opening->only_stream && opening->state == OPENING_RUNNING;
}

/* New progress: the next resend is a first one again. */
static void restart_timer(struct opening *opening, uint64_t now_ns)
{
    opening->resend_interval_ns = opening->resend_first_ns;
    opening->resend_ns = opening_has_unacknowledged(opening) || opening_is_waiting_client(opening)
                             ? now_ns + opening->resend_interval_ns
                             : TIME_NEVER;
}

static bool prepare(struct opening *opening, const struct opening_config *config,
                    struct error *error)
{
    enum packet_direction out = config->client ? CLIENT_TO_SERVER : SERVER_TO_CLIENT;
    enum packet_direction in = config->client ? SERVER_TO_CLIENT : CLIENT_TO_SERVER;
    static const struct address none = {0};
    bool addresses = config->candidate_count > 0 || config->stream || config->channel;

    if (config->client && (!addresses || config->candidate_count > OPENING_CANDIDATES_MAX))
        return error_set(error, ERROR_USAGE, "no address of the server, or too many");
    if (opening->in_clear &&
        (config->stream || config->channel || open_id_is_zero(config->own_id) ||
         (!config->client && open_id_is_zero(config->peer_id))))
        return error_set(error, ERROR_USAGE, "a start at a listening server lacks ids");
    if (!opening->in_clear) {
        opening->sealing =
            packet_keys_new_handshake(config->secret, config->session_id, out, error);
        opening->unsealing =
            packet_keys_new_handshake(config->secret, config->session_id, in, error);
        if (opening->sealing == NULL || opening->unsealing == NULL)
            return false;
    }
    if (!talk_begin(&opening->talk, config, error))
        return false;
    if (config->stream || config->channel) {
        opening->stream = 0;
        add_destination(opening, &none)->proved = true;
    }
    opening->stream_in_use = config->stream || (config->channel && !config->client);
    if (config->stream)
        opening->current = 0;
    for (unsigned i = 0; config->client && !config->stream && i < config->candidate_count; i++)
        add_destination(opening, &config->candidates[i])->proved = true;
    for (unsigned i = 0; config->client && i < opening->destination_count; i++)
        opening_owe(opening, &opening->destinations[i]);
    return true;
}

struct opening *opening_new(const struct opening_config *config, uint64_t now_ns,
                            struct error *error)
{
    struct opening *opening = calloc(1, sizeof *opening);
    if (opening == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for the handshake");
        return NULL;
    }
    opening->client = config->client;
    opening->only_stream = config->stream;
    opening->stream = opening->current = NOBODY;
    opening->timeout_ns = config->timeout_ns;
    opening->give_up_ns = now_ns + config->timeout_ns;
    opening->resend_ns = opening->search_ns = TIME_NEVER;
    opening->resend_first_ns = config->rtt_ns + config->rtt_ns / 2;
    if (opening->resend_first_ns < RESEND_MIN_NS)
        opening->resend_first_ns = RESEND_MIN_NS;
    if (opening->resend_first_ns > RESEND_MAX_NS)
        opening->resend_first_ns = RESEND_MAX_NS;
    opening->resend_interval_ns = opening->resend_first_ns;
    memcpy(opening->session_id, config->session_id, SESSION_ID_SIZE);
    opening->in_clear = config->identity != NULL;
    memcpy(opening->own_id, config->own_id, OPEN_ID_SIZE);
    if (!config->client)
        memcpy(opening->peer_id, config->peer_id, OPEN_ID_SIZE);
    if (!prepare(opening, config, error)) {
        opening_free(opening);
        return NULL;
    }
    return opening;
}

void opening_free(struct opening *opening)
{
    if (opening == NULL)
        return;
    packet_keys_free(opening->sealing);
    packet_keys_free(opening->unsealing);
    talk_end(&opening->talk);
    wipe(opening, sizeof *opening);
    free(opening);
}

/* Receiving */

/* False for a number seen before, or too old to know. Notes it otherwise. */
static bool note_number(struct opening *opening, uint64_t number)
{
    uint64_t *word = &opening->seen[number / 64 % (REPLAY_BITS / 64)];
    uint64_t bit = UINT64_C(1) << (number % 64);

    if (!opening->heard) {
        opening->heard = true;
        opening->newest_number = number;
        *word |= bit;
        return true;
    }
    if (number > opening->newest_number) {
        uint64_t ahead = number / 64 - opening->newest_number / 64;
        if (ahead > REPLAY_BITS / 64)
            ahead = REPLAY_BITS / 64;
        for (uint64_t i = 0; i < ahead; i++) /* the words that come into use */
            opening->seen[(number / 64 - i) % (REPLAY_BITS / 64)] = 0;
        opening->newest_number = number;
    } else if (number / 64 + REPLAY_BITS / 64 <= opening->newest_number / 64 ||
               (*word & bit) != 0) {
        return false;
    }
    *word |= bit;
    return true;
}

/* A client that talks through the stream hears from an address after all. */
static void note_found(struct opening *opening, const struct destination *sender)
{
    if (opening->current != opening->stream || opening->stream == NOBODY ||
        destination_is_stream(sender) || opening->found.family != 0)
        return;
    opening->found = sender->address;
    opening->searching = false;
    opening->search_ns = TIME_NEVER;
}

/* `answers`: the packet shows that the peer has heard us. */
static struct destination *note_sender(struct opening *opening, const struct address *from,
                                       size_t size, bool newest, bool answers)
{
    struct destination *sender = find_destination(opening, from);
    int index;

    if (sender == NULL)
        sender = add_destination(opening, from);
    sender->received_bytes += size;
    index = (int)(sender - opening->destinations);
    if (!opening->client) {
        if (newest)
            opening->current = index;
        return sender;
    }
    sender->proved = true; /* only the server could seal it, or learn our id */
    if (!answers) {
        /* The server knocks: its firewall may let our packets in from now on. */
        if (opening->current == NOBODY && opening->state == OPENING_RUNNING)
            opening_owe(opening, sender);
    } else if (opening->current == NOBODY) {
        /* The first authentic answer wins. */
        opening->current = index;
        for (unsigned i = 0; i < opening->destination_count; i++)
            opening->destinations[i].owed = false;
    } else {
        note_found(opening, sender);
    }
    return sender;
}

static void note_acknowledged(struct opening *opening, const struct destination *sender,
                              uint32_t acknowledged, uint64_t now_ns)
{
    if (acknowledged <= opening->acknowledged)
        return;
    /* Only bytes that went once tell a round trip (Karn). */
    if (sender->flights == 1 && opening->talk.result.rtt_ns == 0)
        opening->talk.result.rtt_ns = now_ns - sender->flight_ns;
    opening->acknowledged = acknowledged;
    for (unsigned i = 0; i < opening->destination_count; i++) {
        struct destination *to = &opening->destinations[i];
        to->flights = 0;
        if (to->next < acknowledged)
            to->next = acknowledged;
    }
    restart_timer(opening, now_ns);
}

static void note_finished(struct opening *opening, struct destination *sender, uint64_t now_ns)
{
    opening->state = OPENING_FINISHED;
    sender->proved = true;
    if (!opening->client) /* whoever sent Finished is where the client is */
        opening->current = (int)(sender - opening->destinations);
    opening->talk.result.address = opening->destinations[opening->current].address;
    if (opening->client && opening->current == opening->stream && opening->destination_count > 1 &&
        opening->found.family == 0) {
        opening->searching = true;
        opening->search_interval_ns = SEARCH_FIRST_NS;
        opening->search_ns = now_ns + opening->search_interval_ns;
    }
}

/* Takes the packet's part of the peer's stream. True when it calls for an answer. */
static bool take_bytes(struct opening *opening, struct destination *sender,
                       const struct handshake_packet *packet, uint64_t now_ns)
{
    uint32_t end = packet->offset + packet->length;
    uint32_t known;

    if (packet->length == 0 || packet->offset > opening->received)
        return false;
    bool judged = opening->state == OPENING_FINISHED && opening->client && opening->in_clear;
    if (end <= opening->received || (opening->state != OPENING_RUNNING && !judged))
        return true; /* a repeat: the peer lacks our acknowledgement, or more */
    known = opening->received - packet->offset;
    opening->received = end;
    if (!talk_receive(&opening->talk, packet->bytes + known, packet->length - known,
                      &opening->error)) {
        opening_fail(opening);
        return true;
    }
    restart_timer(opening, now_ns);
    if (opening->client && opening->stream_in_use && opening->stream != NOBODY)
        opening_owe(opening, &opening->destinations[opening->stream]);
    if (opening->talk.finished && opening->state == OPENING_RUNNING)
        note_finished(opening, sender, now_ns);
    return true;
}

/* ---- packets in clear ---- */

/* A busy server wants to see that we are where we say. */
static void take_cookie(struct opening *opening, const struct address *from, const uint8_t *bytes,
                        size_t size)
{
    struct destination *to = find_destination(opening, from);
    uint8_t id[OPEN_ID_SIZE], cookie[COOKIE_SIZE];

    if (!opening->client || !open_id_is_zero(opening->peer_id) || to == NULL ||
        !cookie_packet_read(id, cookie, bytes, size) ||
        memcmp(id, opening->own_id, OPEN_ID_SIZE) != 0 ||
        memcmp(cookie, to->cookie, COOKIE_SIZE) == 0)
        return;
    memcpy(to->cookie, cookie, COOKIE_SIZE);
    to->flights = 0; /* what went before was not heard */
    opening_owe(opening, to);
}

/* Whether the packet has the ids of both sides; a client learns the server's from the first one. */
static bool read_in_clear(struct opening *opening, const struct address *from, const uint8_t *bytes,
                          size_t size, struct handshake_packet *packet)
{
    struct open_packet open;

    if (size > 0 && bytes[0] == COOKIE_PACKET_TYPE)
        take_cookie(opening, from, bytes, size);
    if (!open_packet_read(&open, bytes, size))
        return false;
    bool first = open_id_is_zero(open.to);
    bool known = !open_id_is_zero(opening->peer_id);
    if (opening->client ? first || find_destination(opening, from) == NULL : !known)
        return false;
    if ((!first && memcmp(open.to, opening->own_id, OPEN_ID_SIZE) != 0) ||
        (known && memcmp(open.from, opening->peer_id, OPEN_ID_SIZE) != 0) ||
        open.body.acknowledged > opening->talk.out_size)
        return false;
    memcpy(opening->peer_id, open.from, OPEN_ID_SIZE);
    *packet = open.body;
    return true;
}

bool opening_receive(struct opening *opening, const struct address *from, const uint8_t *bytes,
                     size_t size, uint64_t now_ns)
{
    uint8_t plain[STREAM_PACKET_MAX];
    struct handshake_packet packet;
    struct destination *sender;
    enum handshake_packet_result result;
    static const struct address none = {0};

    if (from == NULL)
        from = &none;
    if (from->family == 0 && opening->stream == NOBODY)
        return false;
    if (opening->in_clear)
        result = read_in_clear(opening, from, bytes, size, &packet) ? HANDSHAKE_PACKET_GOOD
                                                                    : HANDSHAKE_PACKET_NOT_OURS;
    else
        result = handshake_packet_open(opening->unsealing, opening->session_id, bytes, size, plain,
                                       &packet);
    if (result == HANDSHAKE_PACKET_NOT_OURS) {
        if (from->family == 0 && opening->state == OPENING_RUNNING) {
            error_set(&opening->error, ERROR_CRYPTO,
                      "the peer on the stream does not hold the session's secret");
            opening_fail(opening);
        }
        return false;
    }
    if (result == HANDSHAKE_PACKET_MALFORMED || packet.acknowledged > opening->talk.out_size) {
        if (opening->state == OPENING_RUNNING) {
            error_set(&opening->error, ERROR_PROTOCOL, "the peer's handshake packet is malformed");
            opening_fail(opening);
        }
        return true;
    }
    bool newest = !opening->heard || packet.number > opening->newest_number;
    if (!note_number(opening, packet.number))
        return true;
    sender = note_sender(opening, from, size, newest, packet.length > 0 || packet.acknowledged > 0);
    note_acknowledged(opening, sender, packet.acknowledged, now_ns);
    if (take_bytes(opening, sender, &packet, now_ns))
        opening_owe(opening, opening->client ? &opening->destinations[opening->current] : sender);
    return true;
}

void opening_use_stream(struct opening *opening)
{
    if (opening->stream == NOBODY || opening->stream_in_use)
        return;
    opening->stream_in_use = true;
    opening_owe(opening, &opening->destinations[opening->stream]);
}

bool opening_found(const struct opening *opening, struct address *address)
{
    if (opening->found.family == 0)
        return false;
    *address = opening->found;
    return true;
}

void opening_punch(struct opening *opening, const struct address *address, uint64_t now_ns)
{
    struct punch *punch = NULL;
    for (unsigned i = 0; i < opening->punch_count; i++) {
        if (opening->punches[i].left == 0 || address_equal(&opening->punches[i].address, address))
            punch = &opening->punches[i];
    }
    if (punch == NULL && opening->punch_count < OPENING_PUNCHES_MAX)
        punch = &opening->punches[opening->punch_count++];
    if (opening->client || punch == NULL)
        return;
    *punch = (struct punch){.address = *address, .left = PUNCHES, .next_ns = now_ns};
}

void opening_add_candidate(struct opening *opening, const struct address *address)
{
    if (!opening->client || opening->state != OPENING_RUNNING ||
        opening->later_count == OPENING_MORE_MAX || find_destination(opening, address) != NULL)
        return;
    opening->later_count++;
    struct destination *added = add_destination(opening, address);
    added->proved = added->later = true;
    if (opening->current == NOBODY)
        opening_owe(opening, added);
}

bool opening_is_answered(const struct opening *opening)
{
    return opening->current != NOBODY;
}

void opening_resend_last(struct opening *opening)
{
    if (opening->client && opening->state == OPENING_FINISHED &&
        opening_has_unacknowledged(opening))
        opening_owe(opening, &opening->destinations[opening->current]);
}

void opening_repeat_refusal(struct opening *opening)
{
    if (!opening->client && opening->state == OPENING_FAILED && opening->current != NOBODY)
        opening_owe(opening, &opening->destinations[opening->current]);
}

void opening_confirm(struct opening *opening)
{
    if (opening->state != OPENING_FINISHED)
        return;
    opening->acknowledged = opening->talk.out_size;
    opening->resend_ns = TIME_NEVER;
    for (unsigned i = 0; i < opening->destination_count; i++)
        opening->destinations[i].owed = false;
}

enum opening_state opening_state(const struct opening *opening)
{
    return opening->state;
}

const struct opening_result *opening_result(const struct opening *opening)
{
    return opening->state == OPENING_FINISHED ? &opening->talk.result : NULL;
}

const struct error *opening_error(const struct opening *opening)
{
    return opening->state == OPENING_FAILED ? &opening->error : NULL;
}
