#include "net/train_watch.h"

#include "base/units.h"

#define WINDOW_NS (50 * NS_PER_MS)
#define WINDOW_PACKETS 32u
#define BAD_WINDOWS 3u /* one alone can be an outage that ended */
#define BAD_PERCENT 80u
#define RETRY_NS (10 * NS_PER_S)
#define RETRY_DOUBLINGS 4u

static void go_plain(struct train_watch *watch, uint64_t now_ns)
{
    watch->plain = true;
    watch->retry_ns = now_ns + (RETRY_NS << watch->failures);
    watch->failures += watch->failures < RETRY_DOUBLINGS;
}

static void begin_window(struct train_watch *watch, uint64_t acked, uint64_t lost, uint64_t now_ns)
{
    watch->window_ns = now_ns;
    watch->acked = acked;
    watch->lost = lost;
}

bool train_watch_note(struct train_watch *watch, uint64_t acked, uint64_t lost, uint64_t now_ns)
{
    if (watch->plain && now_ns >= watch->retry_ns) {
        watch->plain = false;
        watch->bad_windows = 0;
        begin_window(watch, acked, lost, now_ns);
        return true;
    }
    uint64_t fresh_acked = acked - watch->acked, fresh_lost = lost - watch->lost;
    if (fresh_acked + fresh_lost < WINDOW_PACKETS || now_ns < watch->window_ns + WINDOW_NS)
        return false;
    begin_window(watch, acked, lost, now_ns);
    bool bad = fresh_lost * 100 > (fresh_acked + fresh_lost) * BAD_PERCENT;
    watch->bad_windows = bad ? watch->bad_windows + 1 : 0;
    if (watch->bad_windows < BAD_WINDOWS)
        return false;
    watch->bad_windows = 0;
    if (watch->plain)
        watch->plain = false; /* no better without: trains are not to blame */
    else
        go_plain(watch, now_ns);
    return true;
}
