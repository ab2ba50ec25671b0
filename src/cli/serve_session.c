#include "cli/serve_session.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/remote.h"
#include "cli/run_transfer.h"
#include "cli/tls_relay.h"
#include "tree/display.h"
#include "tree/jail.h"
#include "tree/sink.h"

#define OPEN_NS (10 * NS_PER_S) /* for all of the handshake */

struct guest_session {
    const struct serve_setup *setup;
    const struct serve_guest *guest;
    const struct authorized_key *key; /* NULL: not shown yet */
    uint64_t limit_bps;               /* the key's */
    bool sends, admitted;
    char what[300]; /* for the log */
};

/* ---- who it is ---- */

/* What is said here is for our own log: the client hears only that it is refused. */
static bool judge(void *context, const uint8_t key[HANDSHAKE_KEY_SIZE], struct error *error)
{
    struct guest_session *session = context;
    char fingerprint[FINGERPRINT_SIZE];
    const struct authorized_key *found = authorized_keys_find(session->setup->keys, key);
    fingerprint_format(fingerprint, key);
    if (found == NULL)
        return error_set(error, ERROR_PERMISSION, "the key %s is not authorised", fingerprint);
    if (authorized_key_expired(found, (uint64_t)time(NULL)))
        return error_set(error, ERROR_PERMISSION, "the key %s has expired", fingerprint);
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

static void note_admitted(struct guest_session *session)
{
    ssize_t written = session->admitted ? 0 : send(session->guest->door, "", 1, MSG_NOSIGNAL);
    (void)written; /* it is counted as a stranger then, until it ends */
    session->admitted = true;
}

static bool open_storage(void *context, bool sends, const struct transfer_request *request,
                         struct storage *storage, struct error *error)
{
    struct guest_session *session = context;
    const struct serve_grant grant = {&session->setup->roots, session->key};
    const char *path = sends && request->name_count > 0 ? request->names[0] : request->destination;
    session->sends = sends;
    display_name(session->what, sizeof(session->what), path != NULL ? path : "");
    note_admitted(session);
    if (!serve_grant_admits(&grant, sends, request, error) ||
        !remote_open_storage(sends, request, storage, error))
        return false;
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
    static const char *const names[FILE_JOB_COUNT] = {
        [FILE_JOB_CLEAN] = "clean", [FILE_JOB_MANIFEST] = "manifest", [FILE_JOB_VERIFY] = "verify"};
    struct guest_session *session = context;
    const struct serve_grant grant = {&session->setup->roots, session->key};
    char shown[200];
    snprintf(session->what, sizeof(session->what), "%s %s", names[job->kind],
             display_name(shown, sizeof(shown), job->paths[0]));
    note_admitted(session);
    return serve_grant_admits_job(&grant, job, error);
}

static void enter_jail(const struct serve_setup *setup)
{
    static struct jail_root roots[SERVE_ROOTS_MAX];
    for (size_t i = 0; i < setup->roots.count; i++)
        roots[i] = (struct jail_root){setup->roots.list[i].name, setup->roots.list[i].directory};
    jail_enter(roots, setup->roots.count);
}

/* ---- the log ---- */

static void write_log(const struct guest_session *session, uint64_t files, uint64_t bytes,
                      const struct error *error)
{
    char from[64], size[24], comment[4 * KEY_COMMENT_MAX] = "", text[sizeof(error->text)];
    if (session->setup->quiet && error->kind == ERROR_NONE)
        return;
    address_format(from, sizeof(from), &session->guest->from);
    if (session->key != NULL)
        display_name(comment, sizeof(comment), session->key->comment);
    fprintf(stderr, "petrel serve: %s%s%s%s%s: %llu files, %s%s%s\n", from,
            comment[0] != '\0' ? " " : "", comment, session->what[0] != '\0' ? " " : "",
            session->what, (unsigned long long)files, format_size(size, sizeof(size), bytes),
            error->kind != ERROR_NONE ? "; " : "",
            display_name(text, sizeof(text), error->kind != ERROR_NONE ? error->text : ""));
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
    struct guest_session session = {.setup = setup, .guest = guest};
    struct transfer_progress progress = {0};
    struct error error = {0};
    enter_jail(setup);
    run_udp(&session, listener, seat, first, &progress, &error);
    write_log(&session, progress.files_done, progress.verified_bytes, &error);
    return exit_code_of(error.kind);
}

/* ---- by TCP ---- */

static int run_stream(struct guest_session *session, int plain)
{
    struct remote_guest guest = {.context = session,
                                 .open_storage = open_storage,
                                 .admits_job = admits_job,
                                 .limit_bps = session->key->limit_bps};
    if (dup2(plain, STDIN_FILENO) < 0 || dup2(plain, STDOUT_FILENO) < 0)
        return EXIT_FILE_IO;
    close(plain);
    int code = remote_run(&guest);
    fflush(stdout);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    write_log(session, guest.files, guest.bytes, &guest.error);
    return code;
}

int serve_session_tcp(const struct serve_setup *setup, const struct serve_guest *guest, int tcp)
{
    struct guest_session session = {.setup = setup, .guest = guest};
    struct handshake_identity identity = identity_of(&session);
    struct error error = {0};
    int plain = -1, code;
    enter_jail(setup);
    struct tls_relay *relay =
        tls_relay_start(tcp, false, &identity, OPEN_NS, interrupt_watch(), &plain, &error);
    wipe(identity.seed, sizeof(identity.seed));
    if (relay != NULL) {
        code = run_stream(&session, plain);
        tls_relay_end(relay);
    } else {
        write_log(&session, 0, 0, &error);
        code = exit_code_of(error.kind);
    }
    return code;
}
