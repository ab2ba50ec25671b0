#include "lab/link_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define MTU_MIN 576u
#define MTU_MAX 65535u
#define QUEUE_MAX_BYTES 1e12

typedef bool parse_function(const char *text, void *target, struct error *error);

struct option {
    const char *name;
    parse_function *parse; /* NULL: a flag, a bool */
    size_t offset;         /* within struct link_direction when it has a --NAME-back */
    bool has_back;         /* --NAME sets forward only, --NAME-back the other direction */
    bool is_mirrored;      /* --NAME sets both directions, a later --NAME-back one of them */
    const char *help;
};

static bool read_rate(const char *text, void *target, struct error *error)
{
    if (strcmp(text, "none") != 0)
        return parse_rate(text, target, error);
    *(uint64_t *)target = 0;
    return true;
}

static bool read_time(const char *text, void *target, struct error *error)
{
    return parse_time(text, target, error);
}

static bool read_size(const char *text, void *target, struct error *error)
{
    return parse_size(text, target, error);
}

static bool read_share(const char *text, void *target, struct error *error)
{
    return parse_share(text, target, error);
}

static bool read_number(const char *text, void *target, struct error *error)
{
    return parse_unsigned(text, UINT64_MAX, target, error);
}

static bool read_mtu(const char *text, void *target, struct error *error)
{
    uint64_t mtu;
    if (!parse_unsigned(text, MTU_MAX, &mtu, error))
        return false;
    if (mtu < MTU_MIN)
        return error_set(error, ERROR_USAGE, "an MTU of %s is below %u", text, MTU_MIN);
    *(uint64_t *)target = mtu;
    return true;
}

static bool read_path_mtu(const char *text, void *target, struct error *error)
{
    if (strcmp(text, "none") != 0)
        return read_mtu(text, target, error);
    *(uint64_t *)target = 0;
    return true;
}

static bool read_burst(const char *text, void *target, struct error *error)
{
    char *end;
    double burst = strtod(text, &end);
    if (end == text || *end != '\0' || !(burst == 0 || (burst >= 1 && burst <= 1e6)))
        return error_set(error, ERROR_USAGE, "'%s' is not a mean length: 1 or more, 0 for none",
                         text);
    *(double *)target = burst;
    return true;
}

/* "1bdp", "0.1bdp", "64p" (packets of the MTU), or a size in bytes. */
static bool read_queue(const char *text, void *target, struct error *error)
{
    struct link_direction *direction =
        (void *)((char *)target - offsetof(struct link_direction, queue));
    char *end;
    double value = strtod(text, &end);
    uint64_t bytes;
    if (end != text && strcmp(end, "bdp") == 0 && value >= 0 && value <= 1e6) {
        direction->queue = value;
        direction->queue_unit = LINK_QUEUE_BDP;
    } else if (end != text && strcmp(end, "p") == 0 && value >= 0 && value <= 1e9) {
        direction->queue = value;
        direction->queue_unit = LINK_QUEUE_PACKETS;
    } else if (parse_size(text, &bytes, NULL)) {
        direction->queue = (double)bytes;
        direction->queue_unit = LINK_QUEUE_BYTES;
    } else {
        return error_set(error, ERROR_USAGE,
                         "'%s' is not a queue: write 1bdp, 100p (packets) or a size such as 256K",
                         text);
    }
    return true;
}

/* "200mbit:64K" or "none"; the bucket stands behind the rate. */
static bool read_policer(const char *text, void *target, struct error *error)
{
    uint64_t *rate_bps = target, *bucket_bytes = rate_bps + 1;
    const char *colon = strchr(text, ':');
    char rate[32];
    if (strcmp(text, "none") == 0) {
        *rate_bps = 0;
        return true;
    }
    if (colon == NULL || (size_t)(colon - text) >= sizeof rate)
        return error_set(error, ERROR_USAGE,
                         "'%s' is not a policer: write RATE:BUCKET, such as 200mbit:64K", text);
    memcpy(rate, text, (size_t)(colon - text));
    rate[colon - text] = '\0';
    return parse_rate(rate, rate_bps, error) && parse_size(colon + 1, bucket_bytes, error);
}

static bool read_loss_at(const char *text, void *target, struct error *error)
{
    if (strcmp(text, "before") != 0 && strcmp(text, "after") != 0)
        return error_set(error, ERROR_USAGE, "--loss-at is before or after, not '%s'", text);
    *(bool *)target = strcmp(text, "before") == 0;
    return true;
}

static bool read_text(const char *text, void *target, struct error *error)
{
    (void)error;
    *(const char **)target = text;
    return true;
}

#define IS_BEHIND(second, first)                                                                   \
    (offsetof(struct link_direction, second) ==                                                    \
     offsetof(struct link_direction, first) + sizeof(uint64_t))
_Static_assert(IS_BEHIND(policer_bucket_bytes, policer_bps), "read_policer");
_Static_assert(IS_BEHIND(flow_policer_bucket_bytes, flow_policer_bps), "read_policer");

#define ONE_WAY(member) offsetof(struct link_direction, member), true, false
#define MIRRORED(member) offsetof(struct link_direction, member), true, true
#define WHOLE(member) offsetof(struct link_options, member), false, false

static const struct option option_table[] = {
    {"rtt", read_time, WHOLE(rtt_ns), "round trip, half of it each way"},
    {"rate", read_rate, MIRRORED(rate_bps), "of the line, in IP bytes; none: no limit"},
    {"queue", read_queue, MIRRORED(queue), "before the line: 1bdp, 100p (packets), 256K (bytes)"},
    {"loss", read_share, ONE_WAY(loss_parts), "share of packets lost"},
    {"loss-at", read_loss_at, WHOLE(loss_before), "before or after the limiter"},
    {"burst", read_burst, MIRRORED(burst), "mean length of a run of losses"},
    {"correlation", read_share, MIRRORED(correlation_parts), "of a loss with the one before"},
    {"jitter", read_time, MIRRORED(jitter_ns), "delay of each packet varies by +-this; reorders"},
    {"reorder", read_share, ONE_WAY(reorder_parts), "share of packets held back"},
    {"reorder-by", read_time, MIRRORED(reorder_by_ns), "how long they are held back"},
    {"duplicate", read_share, ONE_WAY(duplicate_parts), "share of packets that arrive twice"},
    {"policer", read_policer, ONE_WAY(policer_bps), "RATE:BUCKET; what exceeds it is dropped"},
    {"flow-policer", read_policer, ONE_WAY(flow_policer_bps), "the same for each flow by itself"},
    {"path-mtu", read_path_mtu, MIRRORED(path_mtu), "longer packets vanish without a word"},
    {"mtu", read_mtu, WHOLE(mtu), "of both interfaces"},
    {"seed", read_number, WHOLE(seed), "of all randomness"},
    {"memory", read_size, WHOLE(memory_bytes), "at most, for packets on their way, each way"},
    {"json", read_text, WHOLE(json_path), "file for the counters at the end"},
    {"stats", NULL, WHOLE(print_stats), "print the counters on stderr at the end"},
};

#define OPTION_COUNT (sizeof option_table / sizeof option_table[0])

void link_options_init(struct link_options *options)
{
    memset(options, 0, sizeof *options);
    options->mtu = 1500;
    options->seed = 1;
    options->memory_bytes = UINT64_C(2) << 30;
    for (unsigned i = 0; i < LINK_DIRECTIONS; i++) {
        options->direction[i].queue = 1;
        options->direction[i].queue_unit = LINK_QUEUE_BDP;
        options->direction[i].reorder_by_ns = 2 * NS_PER_MS;
    }
}

/* The option that `name` (without dashes, `length` letters) means, and whether for --NAME-back. */
static const struct option *find_option(const char *name, size_t length, bool *back)
{
    static const char suffix[] = "-back";
    size_t suffix_length = sizeof suffix - 1;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &option_table[i];
        size_t own = strlen(option->name);
        *back = false;
        if (length == own && memcmp(name, option->name, own) == 0)
            return option;
        *back = true;
        if (option->has_back && length == own + suffix_length &&
            memcmp(name, option->name, own) == 0 && memcmp(name + own, suffix, suffix_length) == 0)
            return option;
    }
    return NULL;
}

static bool apply(struct link_options *options, const struct option *option, bool back,
                  const char *value, struct error *error)
{
    if (!option->has_back) {
        void *target = (char *)options + option->offset;
        if (option->parse != NULL)
            return option->parse(value, target, error);
        *(bool *)target = true;
        return true;
    }
    for (unsigned i = 0; i < LINK_DIRECTIONS; i++) {
        bool meant = back ? i == LINK_BACK : i == LINK_FORWARD || option->is_mirrored;
        void *target = (char *)&options->direction[i] + option->offset;
        if (meant && !option->parse(value, target, error))
            return false;
    }
    return true;
}

bool link_options_parse(struct link_options *options, size_t count, char *const *arguments,
                        size_t *used, struct error *error)
{
    size_t at = 0;
    while (at < count && strncmp(arguments[at], "--", 2) == 0 && arguments[at][2] != '\0') {
        const char *name = arguments[at] + 2, *equals = strchr(name, '=');
        size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
        bool back;
        const struct option *option = find_option(name, length, &back);
        if (option == NULL)
            return error_set(error, ERROR_USAGE, "unknown option --%.*s", (int)length, name);
        const char *value = equals != NULL ? equals + 1 : NULL;
        if (option->parse != NULL && value == NULL) {
            if (at + 1 == count)
                return error_set(error, ERROR_USAGE, "--%s needs a value", name);
            value = arguments[++at];
        }
        if (!apply(options, option, back, value, error))
            return false;
        at++;
    }
    *used = at;
    return true;
}

static uint64_t queue_bytes(const struct link_options *options,
                            const struct link_direction *direction)
{
    double bytes = direction->queue;
    if (direction->queue_unit == LINK_QUEUE_BDP)
        bytes *= (double)direction->rate_bps / 8 * (double)options->rtt_ns / 1e9;
    else if (direction->queue_unit == LINK_QUEUE_PACKETS)
        bytes *= (double)options->mtu;
    if (bytes < (double)options->mtu) /* a line without any room would lose every other packet */
        bytes = (double)options->mtu;
    return bytes < QUEUE_MAX_BYTES ? (uint64_t)bytes : (uint64_t)QUEUE_MAX_BYTES;
}

void link_options_shape(const struct link_options *options, unsigned index,
                        struct link_shape *shape)
{
    const struct link_direction *direction = &options->direction[index];
    *shape = (struct link_shape){
        .rate_bps = direction->rate_bps,
        .queue_bytes = queue_bytes(options, direction),
        .delay_ns = options->rtt_ns / 2,
        .jitter_ns = direction->jitter_ns,
        .loss_parts = direction->loss_parts,
        .correlation_parts = direction->correlation_parts,
        .burst = direction->burst,
        .loss_before = options->loss_before,
        .reorder_parts = direction->reorder_parts,
        .reorder_by_ns = direction->reorder_by_ns,
        .duplicate_parts = direction->duplicate_parts,
        .policer_bps = direction->policer_bps,
        .policer_bucket_bytes = direction->policer_bucket_bytes,
        .flow_policer_bps = direction->flow_policer_bps,
        .flow_policer_bucket_bytes = direction->flow_policer_bucket_bytes,
        .path_mtu = (uint32_t)direction->path_mtu,
    };
}

void link_options_help(void (*print)(const char *line))
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &option_table[i];
        char name[48], line[160];
        snprintf(name, sizeof name, "--%s%s%s", option->name, option->has_back ? "[-back]" : "",
                 option->parse != NULL ? " VALUE" : "");
        snprintf(line, sizeof line, "  %-28s %s", name, option->help);
        print(line);
    }
}
