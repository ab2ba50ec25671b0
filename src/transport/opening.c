#include "transport/opening.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "transport/handshake_packet.h"
#include "transport/opening_talk.h"

#define RESEND_MIN_NS (100 * NS_PER_MS)
#define RESEND_MAX_NS (2 * NS_PER_S)
#define AMPLIFICATION_MAX 3
#define REPLAY_BITS 256u
#define NOBODY -1

/* A place to send to: a client's candidate, or an address from which a server was spoken to. */
struct destination {
    struct address address;
    uint64_t received_bytes, sent_bytes;
    bool proved;        /* no limit on what goes there */
    bool owed;          /* a packet is to go there now, even one without bytes */
    uint32_t next;      /* where in our stream that packet begins */
    unsigned flights;   /* how often our unacknowledged bytes went there */
    uint64_t flight_ns; /* when last */
};

struct opening {
    bool client, stream;
    enum opening_state state;
    struct error error;
    struct talk talk;
    struct packet_keys *sealing, *unsealing;
    uint8_t session_id[SESSION_ID_SIZE];

    uint64_t next_number;
    uint32_t acknowledged; /* of our stream, by the peer */
    uint32_t received;     /* of the peer's stream, in order */
    bool heard;            /* any packet authenticated */
    bool nudge; /* the next packet is padded to 1200 bytes, with or without bytes of ours */
    uint64_t newest_number; /* of the peer's packets */
    uint64_t seen[REPLAY_BITS / 64];

    /* One more than the candidates, for a server that answers from elsewhere. */
    struct destination destinations[OPENING_CANDIDATES_MAX + 1];
    unsigned destination_count;
    unsigned destination_oldest; /* replaced next when all are used */
    int current;                 /* where the peer is, as far as we know; or NOBODY */

    uint64_t timeout_ns, give_up_ns;
    uint64_t resend_interval_ns, resend_first_ns;
    uint64_t resend_ns; /* when unacknowledged bytes go again */
};

static bool fail(struct opening *opening)
{
    opening->state = OPENING_FAILED;
    opening->resend_ns = TIME_NEVER;
    wipe(opening->talk.result.secret, sizeof opening->talk.result.secret);
    return false;
}

static struct destination *add_destination(struct opening *opening, const struct address *address)
{
    const unsigned capacity = OPENING_CANDIDATES_MAX + 1;
    unsigned index = opening->destination_count;

    if (index < capacity) {
        opening->destination_count++;
    } else {
        index = opening->destination_oldest++ % capacity;
        if ((int)index == opening->current)
            index = opening->destination_oldest++ % capacity;
    }
    opening->destinations[index] = (struct destination){.address = *address};
    return &opening->destinations[index];
}

static struct destination *find_destination(struct opening *opening, const struct address *address)
{
    for (unsigned i = 0; i < opening->destination_count; i++) {
        if (opening->stream || address_equal(&opening->destinations[i].address, address))
            return &opening->destinations[i];
    }
    return NULL;
}

/* All that is unacknowledged is to go there; on a stream, all that has not gone yet. */
static void owe(struct opening *opening, struct destination *to)
{
    to->owed = true;
    if (!opening->stream)
        to->next = opening->acknowledged;
}

static bool has_unacknowledged(const struct opening *opening)
{
    return !opening->stream && opening->acknowledged < opening->talk.out_size;
}

/* A client that waits keeps sending although all that it said has arrived: a server that has used
 * up three times what it heard can else say nothing more, and both would wait for each other. */
static bool is_waiting_client(const struct opening *opening)
{
    return opening->client && !opening->stream && opening->state == OPENING_RUNNING;
}

/* New progress: the next resend is a first one again. */
static void restart_timer(struct opening *opening, uint64_t now_ns)
{
    opening->resend_interval_ns = opening->resend_first_ns;
    opening->resend_ns = has_unacknowledged(opening) || is_waiting_client(opening)
                             ? now_ns + opening->resend_interval_ns
                             : TIME_NEVER;
}

static bool prepare(struct opening *opening, const struct opening_config *config,
                    struct error *error)
{
    enum packet_direction out = config->client ? CLIENT_TO_SERVER : SERVER_TO_CLIENT;
    enum packet_direction in = config->client ? SERVER_TO_CLIENT : CLIENT_TO_SERVER;
    static const struct address none = {0};

    if (config->client && !config->stream &&
        (config->candidate_count == 0 || config->candidate_count > OPENING_CANDIDATES_MAX))
        return error_set(error, ERROR_USAGE, "no address of the server, or too many");
    opening->sealing = packet_keys_new_handshake(config->secret, config->session_id, out, error);
    opening->unsealing = packet_keys_new_handshake(config->secret, config->session_id, in, error);
    if (opening->sealing == NULL || opening->unsealing == NULL ||
        !talk_begin(&opening->talk, config, error))
        return false;
    if (config->stream) {
        add_destination(opening, &none)->proved = true;
        opening->current = 0;
    } else if (config->client) {
        for (unsigned i = 0; i < config->candidate_count; i++)
            add_destination(opening, &config->candidates[i])->proved = true;
    }
    for (unsigned i = 0; config->client && i < opening->destination_count; i++)
        owe(opening, &opening->destinations[i]);
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
    opening->stream = config->stream;
    opening->current = NOBODY;
    opening->timeout_ns = config->timeout_ns;
    opening->give_up_ns = now_ns + config->timeout_ns;
    opening->resend_ns = TIME_NEVER;
    opening->resend_first_ns = config->rtt_ns + config->rtt_ns / 2;
    if (opening->resend_first_ns < RESEND_MIN_NS)
        opening->resend_first_ns = RESEND_MIN_NS;
    if (opening->resend_first_ns > RESEND_MAX_NS)
        opening->resend_first_ns = RESEND_MAX_NS;
    opening->resend_interval_ns = opening->resend_first_ns;
    memcpy(opening->session_id, config->session_id, SESSION_ID_SIZE);
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

static struct destination *note_sender(struct opening *opening, const struct address *from,
                                       size_t size, bool newest)
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
    } else if (opening->current == NOBODY) {
        /* The first authentic answer wins: only the server could seal it. */
        opening->current = index;
        sender->proved = true;
        for (unsigned i = 0; i < opening->destination_count; i++)
            opening->destinations[i].owed = false;
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

static void note_finished(struct opening *opening, struct destination *sender)
{
    opening->state = OPENING_FINISHED;
    sender->proved = true;
    if (!opening->client) /* whoever sent Finished is where the client is */
        opening->current = (int)(sender - opening->destinations);
    opening->talk.result.address = opening->destinations[opening->current].address;
}

/* Takes the packet's part of the peer's stream. True when it calls for an answer. */
static bool take_bytes(struct opening *opening, struct destination *sender,
                       const struct handshake_packet *packet, uint64_t now_ns)
{
    uint32_t end = packet->offset + packet->length;
    uint32_t known;

    if (packet->length == 0 || packet->offset > opening->received)
        return false;
    if (end <= opening->received || opening->state != OPENING_RUNNING)
        return true; /* a repeat: the peer lacks our acknowledgement, or more */
    known = opening->received - packet->offset;
    opening->received = end;
    if (!talk_receive(&opening->talk, packet->bytes + known, packet->length - known,
                      &opening->error)) {
        fail(opening);
        return true;
    }
    restart_timer(opening, now_ns);
    if (opening->talk.finished)
        note_finished(opening, sender);
    return true;
}

bool opening_receive(struct opening *opening, const struct address *from, const uint8_t *bytes,
                     size_t size, uint64_t now_ns)
{
    uint8_t plain[STREAM_PACKET_MAX];
    struct handshake_packet packet;
    struct destination *sender;
    enum handshake_packet_result result;

    result =
        handshake_packet_open(opening->unsealing, opening->session_id, bytes, size, plain, &packet);
    if (result == HANDSHAKE_PACKET_NOT_OURS) {
        if (opening->stream && opening->state == OPENING_RUNNING) {
            error_set(&opening->error, ERROR_CRYPTO,
                      "the peer on the stream does not hold the session's secret");
            fail(opening);
        }
        return false;
    }
    if (result == HANDSHAKE_PACKET_MALFORMED || packet.acknowledged > opening->talk.out_size) {
        if (opening->state == OPENING_RUNNING) {
            error_set(&opening->error, ERROR_PROTOCOL, "the peer's handshake packet is malformed");
            fail(opening);
        }
        return true;
    }
    bool newest = !opening->heard || packet.number > opening->newest_number;
    if (!note_number(opening, packet.number))
        return true;
    sender = note_sender(opening, from, size, newest);
    note_acknowledged(opening, sender, packet.acknowledged, now_ns);
    if (take_bytes(opening, sender, &packet, now_ns))
        owe(opening, opening->client ? &opening->destinations[opening->current] : sender);
    return true;
}

/* Sending */

/* "192.0.2.1:60001, [2001:db8::1]:60001", or as many as fit and how many more there are. */
static void list_destinations(const struct opening *opening, char *text, size_t capacity)
{
    const size_t reserve = 24; /* for " and N more" */
    size_t used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < opening->destination_count; i++) {
        char address[64];
        address_format(address, sizeof address, &opening->destinations[i].address);
        if (used + strlen(address) + 2 + reserve > capacity) {
            snprintf(text + used, capacity - used, " and %u more", opening->destination_count - i);
            return;
        }
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i > 0 ? ", " : "", address);
    }
}

static void give_up(struct opening *opening)
{
    double seconds = (double)opening->timeout_ns / (double)NS_PER_S;
    char text[400];

    if (opening->heard) {
        error_set(&opening->error, ERROR_PEER_LOST,
                  "the peer fell silent during the handshake, which took over %g s", seconds);
    } else if (opening->stream) {
        error_set(&opening->error, ERROR_UNREACHABLE, "no answer on the stream within %g s",
                  seconds);
    } else if (!opening->client) {
        error_set(&opening->error, ERROR_UNREACHABLE, "no client came within %g s", seconds);
    } else {
        list_destinations(opening, text, sizeof text);
        error_set(&opening->error, ERROR_UNREACHABLE, "no answer from UDP %s within %g s", text,
                  seconds);
    }
    for (unsigned i = 0; i < opening->destination_count; i++)
        opening->destinations[i].owed = false;
    fail(opening);
}

static void run_timers(struct opening *opening, uint64_t now_ns)
{
    if (opening->state == OPENING_RUNNING && now_ns >= opening->give_up_ns)
        give_up(opening);
    if (now_ns < opening->resend_ns)
        return;
    if (!has_unacknowledged(opening) && !is_waiting_client(opening)) {
        opening->resend_ns = TIME_NEVER;
        return;
    }
    opening->nudge = is_waiting_client(opening);
    opening->resend_interval_ns *= 2;
    if (opening->resend_interval_ns > RESEND_MAX_NS)
        opening->resend_interval_ns = RESEND_MAX_NS;
    opening->resend_ns = now_ns + opening->resend_interval_ns;
    for (unsigned i = 0; i < opening->destination_count; i++) {
        if (opening->current == NOBODY || opening->current == (int)i)
            owe(opening, &opening->destinations[i]);
    }
}

/* The largest packet that may go there now. */
static size_t allowance(const struct destination *to)
{
    uint64_t limit = AMPLIFICATION_MAX * to->received_bytes;
    if (to->proved)
        return SIZE_MAX;
    return limit > to->sent_bytes ? (size_t)(limit - to->sent_bytes) : 0;
}

/* What the next packet there would hold, within `room`. False when nothing is to go or may. */
static bool plan_packet(const struct opening *opening, const struct destination *to, size_t room,
                        struct handshake_packet *packet, size_t *padded_size)
{
    bool padded = opening->client && !opening->stream && (!opening->heard || opening->nudge);
    size_t left = opening->talk.out_size - to->next;

    if (!to->owed || (opening->stream && left == 0))
        return false;
    if (room > allowance(to))
        room = allowance(to);
    if (room < HANDSHAKE_OVERHEAD || (left > 0 && room == HANDSHAKE_OVERHEAD))
        return false;
    if (left > room - HANDSHAKE_OVERHEAD)
        left = room - HANDSHAKE_OVERHEAD;
    packet->number = opening->next_number;
    packet->acknowledged = opening->received;
    packet->offset = to->next;
    packet->bytes = opening->talk.out + to->next;
    packet->length = (uint16_t)left;
    *padded_size = padded ? DATAGRAM_MIN : 0;
    return true;
}

static void note_sent(struct opening *opening, struct destination *to,
                      const struct handshake_packet *packet, size_t size, uint64_t now_ns)
{
    opening->next_number++;
    opening->nudge = false;
    to->sent_bytes += size;
    if (packet->length > 0 && to->next == opening->acknowledged) {
        to->flights++;
        to->flight_ns = now_ns;
    }
    to->next += packet->length;
    if (to->next >= opening->talk.out_size)
        to->owed = false;
    if (packet->length > 0 && !opening->stream && opening->state != OPENING_FAILED &&
        opening->resend_ns == TIME_NEVER)
        opening->resend_ns = now_ns + opening->resend_interval_ns;
}

size_t opening_send(struct opening *opening, struct address *to, uint8_t *bytes, size_t capacity,
                    uint64_t now_ns)
{
    size_t room = opening->stream ? STREAM_PACKET_MAX : DATAGRAM_MIN;

    run_timers(opening, now_ns);
    if (room > capacity)
        room = capacity;
    for (unsigned i = 0; i < opening->destination_count; i++) {
        struct destination *destination = &opening->destinations[i];
        struct handshake_packet packet;
        size_t padded_size, size;

        if (!plan_packet(opening, destination, room, &packet, &padded_size))
            continue;
        size = handshake_packet_seal(opening->sealing, opening->session_id, &packet, padded_size,
                                     bytes, room);
        if (size == 0)
            return 0;
        note_sent(opening, destination, &packet, size, now_ns);
        *to = destination->address;
        return size;
    }
    return 0;
}

uint64_t opening_deadline(const struct opening *opening)
{
    struct handshake_packet packet;
    size_t padded_size;
    uint64_t deadline = opening->resend_ns;

    for (unsigned i = 0; i < opening->destination_count; i++) {
        if (plan_packet(opening, &opening->destinations[i], DATAGRAM_MIN, &packet, &padded_size))
            return 0;
    }
    if (opening->state == OPENING_RUNNING && opening->give_up_ns < deadline)
        deadline = opening->give_up_ns;
    return deadline;
}

void opening_resend_last(struct opening *opening)
{
    if (opening->client && opening->state == OPENING_FINISHED && has_unacknowledged(opening))
        owe(opening, &opening->destinations[opening->current]);
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
