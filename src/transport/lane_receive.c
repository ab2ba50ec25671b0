/* What comes in on a lane: authentication, replay, paths, and the meaning of each frame. */
#include <string.h>

#include "transport/lane_internal.h"

#define ACK_AFTER_PACKETS 2000u
#define STREAM_ACK_BYTES (256u * 1024u)
#define STREAM_ACK_NS (50 * NS_PER_MS)
#define WAIT_MOST_NS (2 * NS_PER_MS)
#define EVENT_ROOM 512u /* what one packet can cause, besides its bytes */
#define CONTROL_EVENTS_ROOM (2 * EVENT_ROOM)
#define EVENT_PER_PACKET 64u
#define EVENT_ROOM_MOST (256u * 1024u - 64u) /* a ring takes no larger message */

static void want_ack(struct lane *lane, bool now, size_t bytes)
{
    uint64_t interval =
        rtt_ack_interval(lane->peer_rtt_ns ? lane->peer_rtt_ns : lane->rtt.smoothed_ns);
    lane->unacked++;
    lane->unacked_bytes += bytes;
    lane->ack_repeats = 2;
    if (lane->kind == LANE_STREAM) {
        interval = STREAM_ACK_NS;
        now = now || lane->unacked_bytes >= STREAM_ACK_BYTES;
        lane->ack_repeats = 0;
    }
    if (now || lane->unacked >= ACK_AFTER_PACKETS)
        lane->ack_deadline_ns = lane->now_ns;
    else if (lane->unacked == 1 || lane->ack_deadline_ns == TIME_NEVER)
        lane->ack_deadline_ns = lane->now_ns + interval;
}

/* ---- paths ---- */

/* A lane that sends blocks has no use before data may go on it: blocks handed to one that dies with
 * its address unproved would lie there for ever, for it may not even ask whether it is heard. */
static void join(struct lane *lane)
{
    struct event_block event = {.kind = EVENT_JOINED};
    if (!lane->joined && (lane->path.proved || !lane->probes_mtu))
        lane->joined = lane_report(lane, &event, sizeof(event));
}

static void adopt_candidate(struct lane *lane)
{
    bool same_host = address_same_host(&lane->candidate.address, &lane->path.address);
    bool same = address_equal(&lane->candidate.address, &lane->path.address);
    lane->path.address = lane->candidate.address;
    lane->path.known = true;
    lane->path.proved = true;
    lane->candidate.known = false;
    lane->challenge_due = false;
    join(lane);
    if (same)
        return;
    if (!same_host) {
        rtt_init(&lane->rtt, lane->rtt.smoothed_ns);
        mtu_init(&lane->mtu, lane->path.address.family == 6, lane->interface_mtu,
                 lane->datagram_max, lane->now_ns);
        lane_size_changed(lane);
    }
    struct event_path event = {
        .kind = EVENT_NEW_PATH, .same_host = same_host, .address = lane->path.address};
    lane_report(lane, &event, sizeof(event));
}

/* An authenticated packet with the lane's highest number came from an address that is not proved:
 * ask it to prove itself. One candidate per round trip. */
static void consider_candidate(struct lane *lane, const struct address *from, size_t bytes)
{
    bool fresh =
        !lane->candidate.known || lane->now_ns - lane->candidate_since_ns > lane->rtt.smoothed_ns;
    if (!fresh || (lane->candidate.known && address_equal(&lane->candidate.address, from) &&
                   lane->now_ns - lane->candidate_since_ns < 2 * lane->rtt.smoothed_ns))
        return;
    lane->candidate = (struct lane_path){.address = *from, .known = true, .received_bytes = bytes};
    lane->candidate_since_ns = lane->now_ns;
    lane->candidate_token = lane->token_seed + lane->log.next * UINT64_C(0x9e3779b97f4a7c15);
    lane->challenge_due = true;
}

static void note_source(struct lane *lane, const struct address *from, bool newest, size_t bytes)
{
    if (lane->kind == LANE_STREAM)
        return;
    if (!lane->path.known) {
        lane_connect(lane, from, false);
        lane->path.received_bytes = bytes;
        consider_candidate(lane, from, bytes);
        return;
    }
    bool elsewhere = !address_equal(&lane->path.address, from);
    if (!lane->path.proved && !elsewhere)
        lane->path.received_bytes += bytes;
    if (lane->candidate.known && address_equal(&lane->candidate.address, from))
        lane->candidate.received_bytes += bytes;
    if (newest && (elsewhere || !lane->path.proved))
        consider_candidate(lane, from, bytes);
}

/* ---- data ---- */

static void on_data(struct lane *lane, uint8_t flags, const uint8_t *bytes, size_t size)
{
    struct event_piece piece = {.kind = EVENT_PIECE, .flags = flags & (SPAN_END | SPAN_PACKED)};
    packet_place_decode(bytes, &piece.block, &piece.offset32);
    bytes += PACKET_PLACE_SIZE;
    piece.length = (uint32_t)(size - PACKET_PLACE_SIZE);
    if (piece.offset32 + piece.length > BLOCK_SIZE) {
        lane_break(lane, "a piece ends past its block");
        return;
    }
    uint8_t *buffer = block_map_find(&lane->open, piece.block);
    if (buffer != NULL) {
        memcpy(buffer + piece.offset32, bytes, piece.length);
        lane_report_piece(lane, &piece);
    } else {
        lane_flush_pieces(lane);
        piece.kind = EVENT_ORPHAN;
        lane_report_with(lane, &piece, sizeof(piece), bytes, piece.length);
    }
}

/* ---- frames ---- */

static void on_control_bytes(struct lane *lane, const struct frame *frame)
{
    struct event_piece piece = {
        .kind = EVENT_CONTROL, .offset = frame->control.offset, .length = frame->control.size};
    lane_report_with(lane, &piece, sizeof(piece), frame->control.bytes, frame->control.size);
}

/* DONE, BYE and ABORT go up as they came: encoded again from what was parsed. The last counts go
 * ahead of them. */
static void on_ending(struct lane *lane, const struct frame *frame)
{
    uint8_t bytes[FRAME_ABORT_TEXT_MAX + 32];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    frame_write(&writer, frame);
    lane->statistics_ns = lane->now_ns;
    lane_report_statistics(lane, true);
    struct event_text event = {.kind = EVENT_ENDING, .length = (uint16_t)writer_size(&writer)};
    lane_report_with(lane, &event, sizeof(event), bytes, writer_size(&writer));
}

static void on_frame(struct lane *lane, const struct address *from, const struct frame *frame)
{
    switch (frame->type) {
    case FRAME_ACK:
        lane_on_ack(lane, &frame->ack);
        break;
    case FRAME_CONTROL:
        on_control_bytes(lane, frame);
        break;
    case FRAME_WINDOW:
        if (frame->window > lane->peer_window) {
            struct event_state event = {.kind = EVENT_STATE,
                                        .has_window = true,
                                        .credit = lane->peer_credit,
                                        .window = frame->window};
            if (lane_report(lane, &event, sizeof(event)))
                lane->peer_window = frame->window;
        }
        break;
    case FRAME_CHALLENGE:
        lane->response_due = true;
        lane->response_token = frame->token;
        if (lane->kind == LANE_DATAGRAM)
            lane->response_to = *from;
        break;
    case FRAME_RESPONSE:
        if (lane->candidate.known && frame->token == lane->candidate_token &&
            lane->kind == LANE_DATAGRAM)
            adopt_candidate(lane);
        break;
    case FRAME_RTT:
        lane->peer_rtt_ns = (uint64_t)frame->rtt_us * NS_PER_US;
        break;
    case FRAME_DONE:
    case FRAME_BYE:
    case FRAME_ABORT:
        on_ending(lane, frame);
        break;
    case FRAME_PADDING:
    case FRAME_PING:
    case FRAME_STANDBY:
        break;
    }
}

/* True when a frame asks for an acknowledgement. */
static bool on_control(struct lane *lane, const struct address *from, const uint8_t *bytes,
                       size_t size)
{
    struct reader reader = reader_of(bytes, size);
    struct frame frame;
    bool eliciting = false;
    while (frame_read(&reader, &frame)) {
        eliciting = eliciting || !frame_is_passive(frame.type);
        on_frame(lane, from, &frame);
    }
    if (reader.failed)
        lane_break(lane, "a control packet holds a frame of unknown type or wrong length");
    return eliciting;
}

/* ---- packets ---- */

static bool has_event_room(const struct lane *lane, const struct packet_header *header, size_t size)
{
    size_t room = header->type == PACKET_DATA ? size + EVENT_ROOM : 2 * size + CONTROL_EVENTS_ROOM;
    return ring_has_room(lane->up, room);
}

bool lane_can_receive(const struct lane *lane, size_t size, size_t packets)
{
    /* Each packet may go up whole, with an event before it. */
    size_t room = size + packets * EVENT_PER_PACKET + CONTROL_EVENTS_ROOM + DATAGRAM_MAX;
    return ring_has_room(lane->up, room < EVENT_ROOM_MOST ? room : EVENT_ROOM_MOST);
}

static void note_arrival(struct lane *lane, const struct packet_header *header, size_t size)
{
    receive_window_add(&lane->window, header->number);
    packet_keys_accept(lane->open_keys, header->number);
    if (lane->arrived_low == 0 || header->number < lane->arrived_low)
        lane->arrived_low = header->number;
    lane->counters.packets_received++;
    lane->counters.bytes_received += size;
    lane->counters.last_heard_ns = lane->now_ns;
    if (header->number == lane->window.largest)
        lane->largest_time_ns = lane->arrived_ns;
    join(lane);
}

static bool receive_packet(struct lane *lane, const struct address *from, uint8_t *bytes,
                           size_t size)
{
    struct packet_header header;
    if (!packet_header_decode(&header, bytes, size) || header.connection_id != lane->own_id) {
        lane->counters.forged++;
        return false;
    }
    if (!receive_window_allows(&lane->window, header.number)) {
        if (receive_window_has(&lane->window, header.number))
            lane->counters.duplicates++;
        else
            lane->counters.forged++;
        return false;
    }
    if (lane->broken || !has_event_room(lane, &header, size))
        return false;
    uint8_t *sealed = bytes + PACKET_HEADER_SIZE;
    if (!packet_keys_open(lane->open_keys, header.number, bytes, PACKET_HEADER_SIZE, sealed,
                          size - PACKET_HEADER_SIZE, sealed)) {
        lane->counters.forged++;
        return false;
    }
    bool newest = !lane->window.any || header.number > lane->window.largest;
    note_arrival(lane, &header, size);
    note_source(lane, from, newest, size);
    size_t plain = size - PACKET_OVERHEAD;
    bool eliciting = true;
    if (header.type == PACKET_DATA)
        on_data(lane, header.flags, sealed, plain);
    else
        eliciting = on_control(lane, from, sealed, plain);
    if (eliciting)
        want_ack(lane, header.flags & PACKET_ACK_NOW, size);
    return true;
}

void lane_note_wait(struct lane *lane, uint64_t waited_ns)
{
    lane->waited_ns = waited_ns < WAIT_MOST_NS ? waited_ns : WAIT_MOST_NS;
}

bool lane_receive(struct lane *lane, const struct address *from, uint8_t *bytes, size_t size,
                  size_t segment, uint64_t now_ns)
{
    lane->now_ns = now_ns;
    lane->arrived_ns = now_ns - lane->waited_ns;
    lane->waited_ns = 0;
    lane_drain_commands(lane);
    if (segment == 0 || segment > size)
        segment = size;
    bool any = false;
    for (size_t at = 0; at < size; at += segment) {
        size_t part = size - at < segment ? size - at : segment;
        any = receive_packet(lane, from, bytes + at, part) || any;
    }
    /* Ahead of the piece that says that all has arrived. */
    lane_report_statistics(lane, true);
    lane_flush_pieces(lane);
    lane_report_intervals(lane);
    return any;
}

/* The packet that begins with its length at `bytes`; *whole is its size with that, 0 when it goes
 * on past `size`. */
static bool packet_in(const uint8_t *bytes, size_t size, size_t *whole, struct error *error)
{
    *whole = 0;
    if (size < 2)
        return true;
    size_t length = (size_t)bytes[0] << 8 | bytes[1];
    if (length < PACKET_OVERHEAD + 1 || length > STREAM_PACKET_MAX)
        return error_set(error, ERROR_PROTOCOL, "the peer sent a packet of %zu bytes on the stream",
                         length);
    if (size >= length + 2)
        *whole = length + 2;
    return true;
}

static bool take_whole(struct lane *lane, uint8_t *bytes, size_t whole, struct error *error)
{
    static const struct address nowhere;
    if (!receive_packet(lane, &nowhere, bytes + 2, whole - 2) && !lane->broken)
        return error_set(error, ERROR_PROTOCOL,
                         "a packet on the stream did not authenticate or found no room");
    return true;
}

/* Adds to the packet that is not yet whole, and takes it when it is. Returns how many bytes it
 * used, 0 on an error. */
static size_t complete_packet(struct lane *lane, const uint8_t *bytes, size_t size,
                              struct error *error)
{
    uint8_t *buffer = lane->stream_buffer;
    size_t want = 2, whole;
    if (lane->stream_size >= 2)
        want = 2 + ((size_t)buffer[0] << 8 | buffer[1]);
    size_t take = want - lane->stream_size < size ? want - lane->stream_size : size;
    memcpy(buffer + lane->stream_size, bytes, take);
    lane->stream_size += take;
    if (!packet_in(buffer, lane->stream_size, &whole, error))
        return 0;
    if (whole == 0)
        return take;
    lane->stream_size = 0;
    return take_whole(lane, buffer, whole, error) ? take : 0;
}

bool lane_receive_stream(struct lane *lane, uint8_t *bytes, size_t size, uint64_t now_ns,
                         struct error *error)
{
    lane->now_ns = lane->arrived_ns = now_ns;
    lane_drain_commands(lane);
    while (size > 0) {
        size_t used = 0;
        if (lane->stream_size == 0 && !packet_in(bytes, size, &used, error))
            return false;
        if (used > 0 ? !take_whole(lane, bytes, used, error)
                     : (used = complete_packet(lane, bytes, size, error)) == 0)
            return false;
        bytes += used;
        size -= used;
    }
    /* Ahead of the piece that says that all has arrived. */
    lane_report_statistics(lane, true);
    lane_flush_pieces(lane);
    lane_report_intervals(lane);
    return true;
}
