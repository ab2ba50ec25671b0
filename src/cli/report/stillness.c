#include "cli/report/stillness.h"

#include "base/units.h"

/* Longer than two keepalives may be apart, and than a disk or a path often takes. */
#define TELL_NS (15 * NS_PER_S)
/* Who is heard so long after the last move is no end that fell silent. */
#define LIVES_NS (TELL_NS / 2)

/* What the peer says may still come in while nothing of ours gets through: a sender's question is
 * answered by acknowledgements alone. */
static void note_answers(struct stillness *stillness, struct session_statistics *session,
                         uint64_t now_ns)
{
    bool waits = session->payload_sent > 0 && session->in_flight_bytes > 0;
    if (!waits || session->packets_acked != stillness->answered_packets ||
        stillness->answered_ns == 0)
        stillness->answered_ns = now_ns;
    stillness->answered_packets = session->packets_acked;
    if (waits && stillness->answered_ns < session->last_heard_ns)
        session->last_heard_ns = stillness->answered_ns;
}

static uint64_t all_that_moves(const struct transfer_progress *progress)
{
    return progress->total_bytes + progress->total_files + progress->verified_bytes +
           progress->files_done + progress->files_skipped + progress->files_failed +
           progress->deleted + progress->session.payload_acked + progress->session.payload_received;
}

/* While our own disk works it is not the other end that is waited for. */
static void note_moves(struct stillness *stillness, const struct transfer_progress *progress,
                       uint64_t now_ns)
{
    uint64_t moved = all_that_moves(progress);
    if (stillness->moved_ns == 0 || moved != stillness->moved || !progress->disk_rests)
        stillness->moved_ns = now_ns;
    stillness->moved = moved;
}

uint64_t stillness_silent_ns(const struct transfer_progress *progress, uint64_t now_ns)
{
    uint64_t heard_ns = progress->session.last_heard_ns;
    return heard_ns != 0 && now_ns > heard_ns ? now_ns - heard_ns : 0;
}

uint64_t stillness_idle_ns(const struct stillness *stillness,
                           const struct transfer_progress *progress, uint64_t now_ns)
{
    bool moves = progress->phase == PHASE_MOVING || progress->phase == PHASE_FINISHING;
    bool lives = progress->session.last_heard_ns >= stillness->moved_ns + LIVES_NS;
    if (!moves || !lives || stillness->moved_ns == 0 || now_ns < stillness->moved_ns + TELL_NS ||
        stillness_silent_ns(progress, now_ns) >= TELL_NS)
        return 0;
    return now_ns - stillness->moved_ns;
}

void stillness_is_told(struct stillness *stillness, uint64_t since_ns, bool and_its_end)
{
    stillness->told = STILLNESS_SILENT;
    stillness->told_since_ns = since_ns;
    stillness->others_tell_end = and_its_end;
}

static struct stillness_news begin(struct stillness *stillness, enum stillness_kind kind,
                                   uint64_t for_ns, uint64_t now_ns)
{
    stillness->told = kind;
    stillness->told_since_ns = now_ns - for_ns;
    stillness->others_tell_end = false;
    return (struct stillness_news){.kind = kind, .for_ns = for_ns};
}

static struct stillness_news end(struct stillness *stillness, uint64_t now_ns)
{
    struct stillness_news news = {
        .kind = stillness->told, .over = true, .for_ns = now_ns - stillness->told_since_ns};
    if (stillness->others_tell_end)
        news = (struct stillness_news){0};
    if (stillness->told == STILLNESS_SILENT) /* it gets its time to go on */
        stillness->moved_ns = now_ns;
    stillness->told = STILLNESS_NONE;
    return news;
}

/* What others have told may be younger than what is told here. */
static bool is_over(const struct stillness *stillness, const struct transfer_progress *progress,
                    bool is_idle)
{
    if (stillness->told == STILLNESS_SILENT)
        return progress->session.last_heard_ns > stillness->told_since_ns;
    return stillness->told == STILLNESS_IDLE && !is_idle;
}

struct stillness_news stillness_look(struct stillness *stillness,
                                     struct transfer_progress *progress, uint64_t now_ns)
{
    note_answers(stillness, &progress->session, now_ns);
    note_moves(stillness, progress, now_ns);
    uint64_t silent_ns = stillness_silent_ns(progress, now_ns);
    uint64_t idle_ns = stillness_idle_ns(stillness, progress, now_ns);
    bool is_silent = silent_ns >= TELL_NS, is_idle = idle_ns > 0;
    if (is_silent && stillness->told != STILLNESS_SILENT)
        return begin(stillness, STILLNESS_SILENT, silent_ns, now_ns);
    if (is_idle && stillness->told == STILLNESS_NONE)
        return begin(stillness, STILLNESS_IDLE, idle_ns, now_ns);
    if (is_over(stillness, progress, is_idle))
        return end(stillness, now_ns);
    return (struct stillness_news){0};
}
