#include "cli/server/serve_session.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/copy/run_transfer.h"
#include "cli/interrupt.h"
#include "cli/remote.h"
#include "cli/report/exit_code.h"
#include "cli/start/tls_relay.h"
#include "serve/job_log.h"
#include "serve/metrics.h"
#include "tree/display.h"
#include "tree/jail.h"
#include "tree/sink.h"

#define FIRST_BLOCKS 4u         /* what somebody unknown may send, and a pause may let pass */
#define OPEN_NS (10 * NS_PER_S) /* for all of the handshake */

struct guest_session {
    const struct serve_setup *setup;
    const struct serve_guest *guest;
    const struct authorized_key *key; /* NULL: not shown yet */
    uint64_t limit_bps;               /* the key's */
    bool sends, admitted;
    uint64_t began_ns;
    struct board_report report; /* what the door and the log are told */
    struct error refused;       /* of a job: why */
};

/* ---- who it is ---- */

/* What is said here is for our own log: the client hears only that it is refused. */
static bool judge(void *context, const uint8_t key[HANDSHAKE_KEY_SIZE], struct error *error)
{
    struct guest_session *session = context;
    char fingerprint[FINGERPRINT_SIZE];
    const struct authorized_key *found = authorized_keys_find(session->setup->keys, key);
    fingerprint_format(fingerprint, key);
    session->report.refusal = found == NULL ? REFUSED_KEY : REFUSED_EXPIRED;
    if (found == NULL)
        return error_set(error, ERROR_PERMISSION, "the key %s is not authorised", fingerprint);
    if (authorized_key_expired(found, (uint64_t)time(NULL)))
        return error_set(error, ERROR_PERMISSION, "the key %s (%s) has expired", fingerprint,
                         found->comment);
    session->report.refusal = REFUSED_HANDSHAKE; /* its signature is still to come */
    session->key = found;
    session->limit_bps = found->limit_bps;
    return true;
}

static struct handshake_identity identity_of(struct guest_session *session)
{
    struct handshake_identity identity = {.judge = judge, .context = session};
    memcpy(identity.seed, session->setup->identity.seed, sizeof(identity.seed));
    return identity;
}

/* ---- what it may ---- */

static void say(struct guest_session *session)
{
    board_report(session->guest->board, session->guest->place, &session->report);
}

/* The client's key and signature are verified: it asks for something. */
static void note_admitted(struct guest_session *session)
{
    struct board_guest guest = {.limit_bps = session->key->limit_bps};
    if (session->admitted)
        return;
    memcpy(guest.key, session->key->key, sizeof(guest.key));
    snprintf(guest.who, sizeof(guest.who), "%s", session->key->comment);
    session->report.refusal = BOARD_NOT_REFUSED;
    board_admit(session->guest->board, session->guest->place, &guest);
    say(session);
    ssize_t written = send(session->guest->door, "", 1, MSG_NOSIGNAL);
    (void)written; /* it is counted as a stranger then, until it ends */
    session->admitted = true;
}

static bool note_refused(struct guest_session *session)
{
    session->report.refusal = REFUSED_REQUEST;
    return false;
}

static bool open_storage(void *context, bool sends, const struct transfer_request *request,
                         struct storage *storage, struct error *error)
{
    struct guest_session *session = context;
    const struct serve_grant grant = {&session->setup->roots, session->key};
    const char *path = sends && request->name_count > 0 ? request->names[0] : request->destination;
    session->sends = sends;
    display_name(session->report.path, sizeof(session->report.path), path != NULL ? path : "");
    session->report.direction = sends ? BOARD_FROM_SERVER : BOARD_TO_SERVER;
    note_admitted(session);
    if (!serve_grant_admits(&grant, sends, request, error))
        return note_refused(session);
    if (!remote_open_storage(sends, request, storage, error)) {
        jail_explain(error);
        return false;
    }
    if (!sends && serve_grant_is_blind(&grant, request))
        storage->sink_ops = serve_blind_sink_ops();
    return true;
}

static bool open_storage_udp(void *context, const struct transfer_request *request,
                             struct storage *storage, struct error *error)
{
    struct guest_session *session = context;
    return open_storage(session, session->sends, request, storage, error);
}

static bool admits_job(void *context, const struct file_job *job, struct error *error)
{
    static const char *const names[FILE_JOB_COUNT] = {[FILE_JOB_CLEAN] = "clean",
                                                      [FILE_JOB_MANIFEST] = "manifest",
                                                      [FILE_JOB_VERIFY] = "verify",
                                                      [FILE_JOB_LIST] = "ls"};
    struct guest_session *session = context;
    const struct serve_grant grant = {&session->setup->roots, session->key};
    char shown[100];
    snprintf(session->report.path, sizeof(session->report.path), "%s %s", names[job->kind],
             display_name(shown, sizeof(shown), job->paths[0]));
    session->report.direction = BOARD_JOB;
    note_admitted(session);
    if (serve_grant_admits_job(&grant, job, error))
        return true;
    session->refused = *error;
    return note_refused(session);
}

static bool root_at(void *context, size_t index, struct file_job_root *root)
{
    const struct guest_session *session = context;
    const struct serve_grant grant = {&session->setup->roots, session->key};
    return serve_grant_root(&grant, index, root);
}

/* ---- what the door and the log are told ---- */

static void on_tick(void *context, const struct transfer_progress *progress)
{
    struct guest_session *session = context;
    struct board_report *report = &session->report;
    uint64_t before = report->bytes_done;
    report->bytes_done = progress->verified_bytes;
    report->bytes_total = progress->total_bytes;
    report->files_done = progress->files_done;
    report->files_failed = progress->files_failed;
    report->memory_bytes = progress->buffer_bytes;
    /* What arrives, and not what might be sent: a copy that stands still has none. */
    report->rate_bps = (report->rate_bps * 7 + (report->bytes_done - before) * 80) / 8;
    if (progress->phase == PHASE_ENDED)
        report->rate_bps = 0;
    say(session);
}

static void on_pace(void *context, uint64_t *limit_bps, bool *paused)
{
    const struct guest_session *session = context;
    *limit_bps = board_limit(session->guest->board, session->guest->place);
    *paused = board_is_paused(session->guest->board, session->guest->place);
}

static struct guest_session begin(const struct serve_setup *setup, const struct serve_guest *guest)
{
    return (struct guest_session){.setup = setup,
                                  .guest = guest,
                                  .began_ns = driver_now(),
                                  .report = {.refusal = REFUSED_HANDSHAKE}};
}

/* Half of the memory is for blocks, the rest for packets, names and whatever a library wants. */
static size_t pool_blocks(const struct serve_setup *setup)
{
    return (size_t)(setup->limits.memory_bytes / 2 / BLOCK_SIZE);
}

/* What every session does before it reads from its client. */
static bool settle_in(const struct serve_setup *setup, struct error *error)
{
    static struct jail_root roots[SERVE_ROOTS_MAX];
    for (size_t i = 0; i < setup->roots.count; i++)
        roots[i] = (struct jail_root){setup->roots.list[i].name, setup->roots.list[i].directory};
    jail_enter(roots, setup->roots.count);
    return process_limits_set(&setup->limits, error);
}

/* One line; of clients that were not let in as far as the door allows. */
static void write_log(struct guest_session *session, const struct error *error)
{
    char line[JOB_LINE_MAX], from[64];
    const struct board_client *client = NULL;
    struct board_guest guest;
    say(session);
    address_format(from, sizeof(from), &session->guest->from);
    bool is_guest = board_guest(session->guest->board, session->guest->place, &guest);
    if (!session->admitted && session->guest->logs)
        fprintf(stderr, "petrel serve: %s\n",
                refusal_line(line, from, session->key != NULL ? session->key->key : NULL,
                             error->kind != ERROR_NONE ? error->text : "it asked for nothing"));
    if (session->admitted && is_guest && (!session->setup->quiet || error->kind != ERROR_NONE)) {
        client = board_client(session->guest->board, session->guest->place);
        fprintf(stderr, "petrel serve: %s\n",
                job_line(line, client, &guest, &session->report, driver_now() - session->began_ns,
                         error));
    }
}

/* ---- by UDP ---- */

/* The other role than the client's, and what it wishes; none of it is proved yet. */
static bool read_hello(const struct open_packet *first, struct hello *hello,
                       struct hello_wishes *wishes, struct error *error)
{
    const struct handshake_packet *body = &first->body;
    size_t length = body->length > 2 ? (size_t)body->bytes[0] << 8 | body->bytes[1] : 0;
    if (body->offset != 0 || length == 0 || length > body->length - 2u)
        return error_set(error, ERROR_PROTOCOL, "the first packet does not hold a whole hello");
    hello_wishes_decode(wishes, body->bytes + 2, length);
    return hello_decode(hello, body->bytes + 2, length, error);
}

static bool run_udp(struct guest_session *session, struct udp_listener *listener, unsigned seat,
                    const struct open_packet *first, struct transfer_progress *progress,
                    struct error *error)
{
    struct handshake_identity identity = identity_of(session);
    struct hello hello;
    struct hello_wishes wishes;
    if (!read_hello(first, &hello, &wishes, error))
        return false;
    session->sends = hello.role == ROLE_RECEIVER;
    struct transfer_run run = {
        .transfer = {.client = false,
                     .role = session->sends ? ROLE_SENDER : ROLE_RECEIVER,
                     .open_storage = open_storage_udp,
                     .pool_blocks = pool_blocks(session->setup),
                     .first_blocks = FIRST_BLOCKS,
                     .open_context = session},
        .driver = {.listener = listener,
                   .identity = &identity,
                   .seat = (uint16_t)seat,
                   .handed = session->guest->door,
                   .open_timeout_ns = OPEN_NS,
                   .limit_bps = wishes.limit_bps,
                   .guest_limit_bps = &session->limit_bps,
                   .fixed_bps = wishes.fixed_bps,
                   .policy = (enum rate_policy)wishes.policy,
                   .remembered = {.rate_bps = wishes.path_bps,
                                  .rtt_ns = wishes.path_rtt_us * NS_PER_US,
                                  .loss_millionths = wishes.path_loss_millionths},
                   .rtt_ns = wishes.path_rtt_us * NS_PER_US,
                   .stop = interrupt_watch(),
                   .watch_fd = -1},
        .on_tick = on_tick,
        .tick_context = session,
        .on_pace = on_pace,
        .pace_context = session,
    };
    memcpy(run.driver.peer_id, first->from, OPEN_ID_SIZE);
    run.driver.own_id[0] = (uint8_t)(seat >> 8);
    run.driver.own_id[1] = (uint8_t)seat;
    bool good = random_bytes(run.driver.own_id + 2, OPEN_ID_SIZE - 2, error) &&
                transfer_run(&run, progress, NULL, 0, error);
    wipe(identity.seed, sizeof(identity.seed));
    return good;
}

int serve_session_udp(const struct serve_setup *setup, const struct serve_guest *guest,
                      struct udp_listener *listener, unsigned seat, const struct open_packet *first)
{
    struct guest_session session = begin(setup, guest);
    struct transfer_progress progress = {0};
    struct error error = {0};
    if (settle_in(setup, &error)) {
        run_udp(&session, listener, seat, first, &progress, &error);
        on_tick(&session, &progress);
    }
    write_log(&session, &error);
    return exit_code_of(error.kind);
}

/* ---- by TCP ---- */

static int run_stream(struct guest_session *session, int plain)
{
    struct remote_guest guest = {.context = session,
                                 .open_storage = open_storage,
                                 .jobs = {session, admits_job, root_at},
                                 .on_tick = on_tick,
                                 .on_pace = on_pace,
                                 .pool_blocks = pool_blocks(session->setup),
                                 .first_blocks = FIRST_BLOCKS,
                                 .limit_bps = session->key->limit_bps};
    if (dup2(plain, STDIN_FILENO) < 0 || dup2(plain, STDOUT_FILENO) < 0)
        return EXIT_FILE_IO;
    close(plain);
    int code = remote_run(&guest);
    fflush(stdout);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    if (session->refused.kind != ERROR_NONE)
        guest.error = session->refused;
    else if (code != EXIT_OK) /* a job's own words went to its client */
        error_set(&guest.error, ERROR_PEER, "it ended with exit code %d", code);
    write_log(session, &guest.error);
    return code;
}

int serve_session_tcp(const struct serve_setup *setup, const struct serve_guest *guest, int tcp)
{
    struct guest_session session = begin(setup, guest);
    struct handshake_identity identity = identity_of(&session);
    struct error error = {0};
    struct tls_relay *relay = NULL;
    int plain = -1, code;
    if (settle_in(setup, &error))
        relay = tls_relay_start(tcp, false, &identity, OPEN_NS, interrupt_watch(), &plain, &error);
    wipe(identity.seed, sizeof(identity.seed));
    if (relay != NULL) {
        code = run_stream(&session, plain);
        tls_relay_end(relay);
    } else {
        write_log(&session, &error);
        code = exit_code_of(error.kind);
    }
    return code;
}
