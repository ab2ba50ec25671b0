/* What an opening sends, where and when. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "transport/opening_internal.h"

#define RESEND_MAX_NS (2 * NS_PER_S)
#define AMPLIFICATION_MAX 3
#define SEARCH_MAX_NS (4 * NS_PER_S)
#define PUNCH_EVERY_NS (150 * NS_PER_MS)

/* "192.0.2.1:60001, [2001:db8::1]:60001", or as many as fit and how many more there are. */
static void list_destinations(const struct opening *opening, char *text, size_t capacity)
{
    const size_t reserve = 24; /* for " and N more" */
    size_t used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < opening->destination_count; i++) {
        char address[64];
        if (destination_is_stream(&opening->destinations[i]))
            continue;
        address_format(address, sizeof address, &opening->destinations[i].address);
        if (used + strlen(address) + 2 + reserve > capacity) {
            snprintf(text + used, capacity - used, " and %u more", opening->destination_count - i);
            return;
        }
        used +=
            (size_t)snprintf(text + used, capacity - used, "%s%s", used > 0 ? ", " : "", address);
    }
}

static void give_up(struct opening *opening)
{
    double seconds = (double)opening->timeout_ns / (double)NS_PER_S;
    char text[240];

    /* A server's knocking alone is no answer: our packets do not get there. */
    bool answered = opening->client ? opening->current != OPENING_NOBODY : opening->heard;
    if (answered) {
        error_set(&opening->error, ERROR_PEER_LOST,
                  "the peer fell silent during the handshake, which took over %g s", seconds);
    } else if (opening->only_stream) {
        error_set(&opening->error, ERROR_UNREACHABLE, "no answer on the stream within %g s",
                  seconds);
    } else if (!opening->client) {
        error_set(&opening->error, ERROR_UNREACHABLE, "no client came within %g s", seconds);
    } else if (opening->stream_in_use) {
        error_set(&opening->error, ERROR_PEER_LOST,
                  "the far end fell silent: nothing came from it within %g s, neither by UDP nor "
                  "through ssh",
                  seconds);
    } else {
        list_destinations(opening, text, sizeof text);
        error_set(&opening->error, ERROR_UNREACHABLE, "no answer from UDP %s within %g s", text,
                  seconds);
    }
    for (unsigned i = 0; i < opening->destination_count; i++)
        opening->destinations[i].owed = false;
    opening_fail(opening);
}

static void resend(struct opening *opening, uint64_t now_ns)
{
    if (!opening_has_unacknowledged(opening) && !opening_is_waiting_client(opening)) {
        opening->resend_ns = TIME_NEVER;
        return;
    }
    opening->nudge = opening_is_waiting_client(opening);
    opening->resend_interval_ns *= 2;
    if (opening->resend_interval_ns > RESEND_MAX_NS)
        opening->resend_interval_ns = RESEND_MAX_NS;
    opening->resend_ns = now_ns + opening->resend_interval_ns;
    for (unsigned i = 0; i < opening->destination_count; i++) {
        struct destination *to = &opening->destinations[i];
        bool wanted = opening->current == OPENING_NOBODY || opening->current == (int)i;
        if (wanted && !destination_is_stream(to))
            opening_owe(opening, to);
    }
}

/* Repeats its last byte to every candidate, which is what a server answers in every state. */
static void search(struct opening *opening, uint64_t now_ns)
{
    opening->search_interval_ns *= 2;
    if (opening->search_interval_ns > SEARCH_MAX_NS)
        opening->search_interval_ns = SEARCH_MAX_NS;
    opening->search_ns = now_ns + opening->search_interval_ns;
    for (unsigned i = 0; i < opening->destination_count; i++) {
        struct destination *to = &opening->destinations[i];
        if (destination_is_stream(to) || to->later)
            continue;
        to->owed = true;
        to->next = opening->talk.out_size - 1;
    }
}

static void run_timers(struct opening *opening, uint64_t now_ns)
{
    if (opening->state == OPENING_RUNNING && now_ns >= opening->give_up_ns)
        give_up(opening);
    if (now_ns >= opening->resend_ns)
        resend(opening, now_ns);
    if (now_ns >= opening->search_ns)
        search(opening, now_ns);
}

/* The largest packet that may go there now. */
static size_t allowance(const struct destination *to)
{
    uint64_t limit = AMPLIFICATION_MAX * to->received_bytes;
    if (to->proved)
        return SIZE_MAX;
    return limit > to->sent_bytes ? (size_t)(limit - to->sent_bytes) : 0;
}

size_t opening_overhead(const struct opening *opening)
{
    if (!opening->in_clear)
        return HANDSHAKE_OVERHEAD;
    return open_id_is_zero(opening->peer_id) ? OPEN_FIRST_OVERHEAD : OPEN_OVERHEAD;
}

static size_t write_packet(struct opening *opening, const struct destination *to,
                           const struct handshake_packet *packet, size_t padded_size,
                           uint8_t *bytes, size_t room)
{
    if (!opening->in_clear)
        return handshake_packet_seal(opening->sealing, opening->session_id, packet, padded_size,
                                     bytes, room);
    struct open_packet open = {.body = *packet};
    memcpy(open.to, opening->peer_id, OPEN_ID_SIZE);
    memcpy(open.from, opening->own_id, OPEN_ID_SIZE);
    memcpy(open.cookie, to->cookie, COOKIE_SIZE);
    return open_packet_write(&open, padded_size, bytes, room);
}

/* What the next packet there would hold, within `room`. False when nothing is to go or may. */
static bool plan_packet(const struct opening *opening, const struct destination *to, size_t room,
                        struct handshake_packet *packet, size_t *padded_size)
{
    bool stream = destination_is_stream(to);
    bool padded = opening->client && !stream &&
                  (opening->received == 0 || opening->nudge || opening->searching);
    size_t left = opening->talk.out_size - to->next;

    if (!to->owed || (stream && (left == 0 || !opening->stream_in_use)))
        return false;
    if (!stream && room > DATAGRAM_MIN)
        room = DATAGRAM_MIN;
    if (room > allowance(to))
        room = allowance(to);
    const size_t overhead = opening_overhead(opening);
    if (room < overhead || (left > 0 && room == overhead))
        return false;
    if (left > room - overhead)
        left = room - overhead;
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
    if (opening_has_unacknowledged(opening) && !destination_is_stream(to) &&
        opening->state != OPENING_FAILED && packet->length > 0 && opening->resend_ns == TIME_NEVER)
        opening->resend_ns = now_ns + opening->resend_interval_ns;
}

/* A full-size packet without bytes, to an address that the client named through ssh. */
static size_t send_punch(struct opening *opening, struct address *to, uint8_t *bytes,
                         uint64_t now_ns)
{
    for (unsigned i = 0; i < opening->punch_count; i++) {
        struct punch *punch = &opening->punches[i];
        if (punch->left == 0 || punch->next_ns > now_ns || opening->state == OPENING_FAILED)
            continue;
        struct handshake_packet packet = {.number = opening->next_number++};
        punch->left--;
        punch->next_ns = now_ns + PUNCH_EVERY_NS;
        *to = punch->address;
        return handshake_packet_seal(opening->sealing, opening->session_id, &packet, DATAGRAM_MIN,
                                     bytes, DATAGRAM_MIN);
    }
    return 0;
}

size_t opening_send(struct opening *opening, struct address *to, uint8_t *bytes, size_t capacity,
                    uint64_t now_ns)
{
    size_t room = capacity < STREAM_PACKET_MAX ? capacity : STREAM_PACKET_MAX;

    run_timers(opening, now_ns);
    for (unsigned i = 0; i < opening->destination_count; i++) {
        struct destination *destination = &opening->destinations[i];
        struct handshake_packet packet;
        size_t padded_size, size;

        if (!plan_packet(opening, destination, room, &packet, &padded_size))
            continue;
        size = write_packet(opening, destination, &packet, padded_size, bytes, room);
        if (size == 0)
            return 0;
        note_sent(opening, destination, &packet, size, now_ns);
        *to = destination->address;
        return size;
    }
    return send_punch(opening, to, bytes, now_ns);
}

uint64_t opening_deadline(const struct opening *opening)
{
    struct handshake_packet packet;
    size_t padded_size;
    uint64_t deadline = opening->resend_ns;

    if (opening->search_ns < deadline)
        deadline = opening->search_ns;
    for (unsigned i = 0; i < opening->punch_count; i++) {
        const struct punch *punch = &opening->punches[i];
        if (punch->left > 0 && punch->next_ns < deadline && opening->state != OPENING_FAILED)
            deadline = punch->next_ns;
    }

    for (unsigned i = 0; i < opening->destination_count; i++) {
        if (plan_packet(opening, &opening->destinations[i], DATAGRAM_MIN, &packet, &padded_size))
            return 0;
    }
    if (opening->state == OPENING_RUNNING && opening->give_up_ns < deadline)
        deadline = opening->give_up_ns;
    return deadline;
}
