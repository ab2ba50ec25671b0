#include "cli/copy/retry.h"

#include <string.h>

#include "base/units.h"

#define FIRST_WAIT_NS (500 * NS_PER_MS)
#define DOUBLINGS 4u /* up to 8 s; a try itself takes as long where nothing answers */
#define FRUITLESS_MAX 5u

/* What may pass by itself. Before an answer ssh fails in many words, not all of them its own. */
static bool is_passing(const struct retry_outcome *outcome)
{
    switch (outcome->error->kind) {
    case ERROR_PEER_LOST:
    case ERROR_UNREACHABLE:
    case ERROR_SSH:
        return true;
    case ERROR_NO_REMOTE:
        return !outcome->missing;
    default:
        return false;
    }
}

static void note_try(struct retry *retry, const struct transfer_progress *progress)
{
    uint64_t files = progress->files_done + progress->files_skipped;
    uint64_t bytes = progress->verified_bytes;
    if (progress->session.last_heard_ns == 0) {
        retry->failures++;
        return;
    }
    retry->heard_ns = progress->session.last_heard_ns;
    retry->failures = 0;
    retry->fruitless++;
    if (files < retry->best_files || (files == retry->best_files && bytes <= retry->best_bytes))
        return;
    retry->best_files = files;
    retry->best_bytes = bytes;
    retry->fruitless = 0;
}

enum retry_verdict retry_judge(struct retry *retry, const struct retry_outcome *outcome,
                               uint64_t now_ns, uint64_t *at_ns)
{
    note_try(retry, outcome->progress);
    if (retry->limit_ns == 0 || retry->heard_ns == 0 || !is_passing(outcome))
        return RETRY_NOT;
    if (outcome->refused)
        return RETRY_REFUSED;
    if (retry->fruitless >= FRUITLESS_MAX)
        return RETRY_FRUITLESS;
    unsigned doublings = retry->failures < DOUBLINGS ? retry->failures : DOUBLINGS;
    *at_ns = now_ns + (FIRST_WAIT_NS << doublings);
    return *at_ns < retry->heard_ns + retry->limit_ns ? RETRY_AGAIN : RETRY_LATE;
}

bool retry_is_refusal(const char *last_words)
{
    static const char *const texts[] = {"Permission denied", "Host key verification failed",
                                        "Too many authentication failures"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strstr(last_words, texts[i]) != NULL)
            return true;
    }
    return false;
}

void retry_add(struct transfer_progress *progress, const struct transfer_progress *before)
{
    uint64_t again =
        before->files_done < progress->files_skipped ? before->files_done : progress->files_skipped;
    uint64_t bytes = progress->verified_bytes + before->verified_bytes;
    progress->files_done += before->files_done;
    progress->files_skipped -= again;
    if (progress->totals_final && bytes > progress->total_bytes)
        bytes = progress->total_bytes > progress->verified_bytes ? progress->total_bytes
                                                                 : progress->verified_bytes;
    progress->verified_bytes = bytes;
    if (before->started_ns != 0)
        progress->started_ns = before->started_ns;
}
