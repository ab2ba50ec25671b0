#include "base/range_set.h"

#include <stdlib.h>
#include <string.h>

void range_set_init(struct range_set *set)
{
    *set = (struct range_set){.ranges = NULL};
}

void range_set_release(struct range_set *set)
{
    free(set->ranges);
    range_set_init(set);
}

/* Index of the first range whose end is at or after `number`: the first that touches a range
 * beginning there. */
static size_t first_touching(const struct range_set *set, uint64_t number)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->ranges[middle].end < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Index of the first range whose end is after `number`. */
static size_t first_beyond(const struct range_set *set, uint64_t number)
{
    size_t index = first_touching(set, number);
    if (index < set->count && set->ranges[index].end == number)
        index++;
    return index;
}

static bool grow(struct range_set *set)
{
    if (set->count < set->capacity)
        return true;
    size_t capacity = set->capacity > 0 ? set->capacity * 2 : 8;
    if (capacity > SIZE_MAX / sizeof *set->ranges)
        return false;
    struct range *ranges = realloc(set->ranges, capacity * sizeof *ranges);
    if (ranges == NULL)
        return false;
    set->ranges = ranges;
    set->capacity = capacity;
    return true;
}

static bool insert_at(struct range_set *set, size_t index, struct range range)
{
    if (!grow(set))
        return false;
    memmove(set->ranges + index + 1, set->ranges + index,
            (set->count - index) * sizeof *set->ranges);
    set->ranges[index] = range;
    set->count++;
    return true;
}

static void erase(struct range_set *set, size_t first, size_t last)
{
    if (first == last)
        return;
    memmove(set->ranges + first, set->ranges + last, (set->count - last) * sizeof *set->ranges);
    set->count -= last - first;
}

bool range_set_add(struct range_set *set, uint64_t start, uint64_t end, uint64_t *added)
{
    uint64_t fresh = 0;
    if (start < end) {
        size_t first = first_touching(set, start);
        struct range merged = {start, end};
        uint64_t held = 0;
        size_t last = first;
        for (; last < set->count && set->ranges[last].start <= end; last++) {
            const struct range *range = &set->ranges[last];
            held += range->end - range->start;
            if (range->start < merged.start)
                merged.start = range->start;
            if (range->end > merged.end)
                merged.end = range->end;
        }
        if (first == last) {
            if (!insert_at(set, first, merged))
                return false;
        } else {
            set->ranges[first] = merged;
            erase(set, first + 1, last);
        }
        fresh = merged.end - merged.start - held;
    }
    if (added != NULL)
        *added = fresh;
    return true;
}

bool range_set_remove(struct range_set *set, uint64_t start, uint64_t end)
{
    if (start >= end)
        return true;
    size_t first = first_beyond(set, start);
    if (first < set->count && set->ranges[first].start < start) {
        struct range whole = set->ranges[first];
        if (whole.end > end) { /* a hole in the middle makes two of one */
            if (!insert_at(set, first + 1, (struct range){end, whole.end}))
                return false;
            set->ranges[first].end = start;
            return true;
        }
        set->ranges[first].end = start;
        first++;
    }
    size_t last = first;
    while (last < set->count && set->ranges[last].end <= end)
        last++;
    if (last < set->count && set->ranges[last].start < end)
        set->ranges[last].start = end;
    erase(set, first, last);
    return true;
}

bool range_set_contains(const struct range_set *set, uint64_t start, uint64_t end)
{
    struct range gap;
    return !range_set_first_gap(set, start, end, &gap);
}

bool range_set_first_gap(const struct range_set *set, uint64_t start, uint64_t limit,
                         struct range *gap)
{
    size_t index = first_beyond(set, start);
    if (index < set->count && set->ranges[index].start <= start)
        start = set->ranges[index++].end;
    if (start >= limit)
        return false;
    gap->start = start;
    gap->end = limit;
    if (index < set->count && set->ranges[index].start < limit)
        gap->end = set->ranges[index].start;
    return true;
}

uint64_t range_set_total(const struct range_set *set)
{
    uint64_t total = 0;
    for (size_t i = 0; i < set->count; i++)
        total += set->ranges[i].end - set->ranges[i].start;
    return total;
}
