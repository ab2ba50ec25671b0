#include "transport/mtu.h"

#include <string.h>

#include "base/units.h"
#include "transport/limits.h"

#define PROBES_PER_SIZE 5u
#define PROBES_ONCE_ARRIVED 12u /* a size that got through once is worth more tries */
#define PROBES_QUICK 3u
#define PROBE_SPACING_NS (10 * NS_PER_MS)
#define PROBE_SPACING_LATER_NS (50 * NS_PER_MS)
#define ARRIVALS_NEEDED 2u
#define SUSPICIOUS_LOSSES 32u
/* A slow lane would take minutes to lose so many: fewer are enough when they took long. */
#define LASTING_LOSSES 6u
#define LASTING_NS (2 * NS_PER_S)
#define CANARIES_NEEDED 3u
#define CANARIES_PER_SPACING 8u
#define CANARY_SPACING_MAX_NS NS_PER_S

/* IP packet sizes met in the field: tunnels, PPPoE, clouds' own limits, jumbo frames. */
static const uint16_t ip_sizes[] = {1280, 1400, 1420, 1440, 1460, 1492, 1500,
                                    1600, 4000, 8500, 8896, 9000, 9001};

void mtu_init(struct mtu *mtu, bool ipv6, uint16_t interface_mtu, uint16_t datagram_max,
              uint64_t now_ns)
{
    memset(mtu, 0, sizeof(*mtu));
    uint16_t headers = ipv6 ? 48 : 28;
    mtu->sizes[mtu->count++] = (struct mtu_size){.datagram = DATAGRAM_MIN};
    for (unsigned i = 0; i < sizeof(ip_sizes) / sizeof(ip_sizes[0]); i++) {
        uint16_t datagram = (uint16_t)(ip_sizes[i] - headers);
        if (ip_sizes[i] <= interface_mtu && datagram <= datagram_max && datagram > DATAGRAM_MIN)
            mtu->sizes[mtu->count++] = (struct mtu_size){.datagram = datagram};
    }
    mtu_restart(mtu, now_ns);
}

void mtu_init_fixed(struct mtu *mtu, uint16_t datagram)
{
    memset(mtu, 0, sizeof(*mtu));
    mtu->sizes[mtu->count++] = (struct mtu_size){.datagram = datagram};
    mtu->next_ns = TIME_NEVER;
    mtu->canary_ns = TIME_NEVER;
}

void mtu_restart(struct mtu *mtu, uint64_t now_ns)
{
    for (unsigned i = 0; i < mtu->count; i++) {
        mtu->sizes[i].sent = 0;
        mtu->sizes[i].arrived = 0;
    }
    mtu->in_use = 0;
    mtu->cursor = mtu->count - 1;
    mtu->next_ns = mtu->count > 1 ? now_ns : TIME_NEVER;
    mtu->losses_in_row = 0;
    mtu->canaries_arrived = 0;
    mtu->canary_ns = TIME_NEVER;
}

uint16_t mtu_datagram(const struct mtu *mtu)
{
    return mtu->sizes[mtu->in_use].datagram;
}

static bool is_worth_a_probe(const struct mtu *mtu, unsigned at)
{
    const struct mtu_size *size = &mtu->sizes[at];
    return at > mtu->in_use &&
           size->sent < (size->arrived > 0 ? PROBES_ONCE_ARRIVED : PROBES_PER_SIZE);
}

/* The next size worth a probe, going down from the cursor and around once. */
static unsigned next_candidate(const struct mtu *mtu)
{
    for (unsigned step = 0; step < mtu->count; step++) {
        unsigned at = (mtu->cursor + mtu->count - step) % mtu->count;
        if (is_worth_a_probe(mtu, at))
            return at;
    }
    return 0;
}

uint16_t mtu_next_probe(struct mtu *mtu, uint64_t now_ns)
{
    if (mtu->next_ns > now_ns)
        return 0;
    unsigned at = next_candidate(mtu);
    if (at == 0) {
        mtu->next_ns = TIME_NEVER;
        return 0;
    }
    mtu->sizes[at].sent++;
    bool wrapped = at <= mtu->in_use + 1;
    mtu->cursor = wrapped ? mtu->count - 1 : at - 1;
    /* One round of all sizes goes at once, the next a little later. */
    if (wrapped)
        mtu->next_ns = now_ns + (mtu->sizes[at].sent < PROBES_QUICK ? PROBE_SPACING_NS
                                                                    : PROBE_SPACING_LATER_NS);
    return mtu->sizes[at].datagram;
}

uint64_t mtu_deadline(const struct mtu *mtu)
{
    return mtu->next_ns < mtu->canary_ns ? mtu->next_ns : mtu->canary_ns;
}

static unsigned index_of(const struct mtu *mtu, uint16_t datagram)
{
    for (unsigned i = 0; i < mtu->count; i++) {
        if (mtu->sizes[i].datagram == datagram)
            return i;
    }
    return 0;
}

bool mtu_probe_arrived(struct mtu *mtu, uint16_t datagram)
{
    unsigned at = index_of(mtu, datagram);
    if (mtu->sizes[at].arrived < ARRIVALS_NEEDED)
        mtu->sizes[at].arrived++;
    if (at > mtu->in_use && mtu->sizes[at].arrived == 1 && mtu->next_ns == TIME_NEVER)
        mtu->next_ns = 0; /* at once: the others were lost by chance */
    if (at <= mtu->in_use || mtu->sizes[at].arrived < ARRIVALS_NEEDED)
        return false;
    mtu->in_use = at;
    return true;
}

bool mtu_data_arrived(struct mtu *mtu, uint16_t datagram, uint64_t number)
{
    if (mtu->in_use == 0 || number < mtu->arrived_number || datagram <= DATAGRAM_MIN ||
        (mtu->losses_in_row > 0 && datagram < mtu->row_datagram))
        return false;
    mtu->arrived_number = number;
    mtu->losses_in_row = 0;
    mtu->canaries_arrived = 0;
    mtu->canary_ns = TIME_NEVER;
    return false;
}

bool mtu_data_lost(struct mtu *mtu, uint16_t datagram, uint64_t number, uint64_t now_ns)
{
    /* Larger packets were sent before the last fall: their loss says nothing of this size. */
    if (datagram > mtu_datagram(mtu) || datagram <= DATAGRAM_MIN || mtu->in_use == 0 ||
        number < mtu->arrived_number)
        return false;
    if (mtu->losses_in_row++ == 0) {
        mtu->row_since_ns = now_ns;
        mtu->row_datagram = datagram;
    }
    if (datagram < mtu->row_datagram)
        mtu->row_datagram = datagram;
    bool lasting = mtu->losses_in_row >= LASTING_LOSSES && now_ns - mtu->row_since_ns >= LASTING_NS;
    if ((mtu->losses_in_row >= SUSPICIOUS_LOSSES || lasting) && mtu->canary_ns == TIME_NEVER) {
        mtu->canary_ns = now_ns;
        mtu->canaries_sent = 0;
    }
    return false;
}

bool mtu_canary_due(struct mtu *mtu, uint64_t rtt_ns, uint64_t now_ns)
{
    if (mtu->canary_ns > now_ns)
        return false;
    uint64_t spacing = rtt_ns / 4 > NS_PER_MS ? rtt_ns / 4 : NS_PER_MS;
    /* The first few decide; in a long outage they become rare. */
    uint64_t rare = spacing << (mtu->canaries_sent / CANARIES_PER_SPACING);
    uint64_t longest = spacing > CANARY_SPACING_MAX_NS ? spacing : CANARY_SPACING_MAX_NS;
    mtu->canary_ns = now_ns + (rare < longest ? rare : longest);
    if (rare < longest)
        mtu->canaries_sent++;
    return true;
}

bool mtu_canary_arrived(struct mtu *mtu, uint64_t number, uint64_t now_ns)
{
    if (mtu->canary_ns == TIME_NEVER || number < mtu->arrived_number ||
        ++mtu->canaries_arrived < CANARIES_NEEDED)
        return false;
    /* What the smaller sizes proved is as old as what this one did: they are all probed again at
     * once, which costs one round trip, instead of falling step by step. */
    mtu->count = mtu->in_use;
    mtu_restart(mtu, now_ns);
    return true;
}

bool mtu_cap(struct mtu *mtu, uint16_t datagram, uint64_t now_ns)
{
    unsigned count = mtu->count;
    while (count > 1 && mtu->sizes[count - 1].datagram > datagram)
        count--;
    mtu->count = count;
    if (mtu->in_use < count) {
        if (mtu->cursor >= count)
            mtu->cursor = count - 1;
        return false;
    }
    mtu_restart(mtu, now_ns);
    return true;
}

uint16_t mtu_largest(const struct mtu *mtu)
{
    return mtu->sizes[mtu->count - 1].datagram;
}
