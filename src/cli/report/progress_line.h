/* One line on a terminal that is drawn over and over: how far a copy is. Survives any width; draws
 * nothing where stderr is no terminal. */
#ifndef PETREL_CLI_PROGRESS_LINE_H
#define PETREL_CLI_PROGRESS_LINE_H

#include "transfer/transfer.h"

struct progress_line {
    bool enabled, drawn;
    uint64_t last_draw_ns;
    /* For the rate of the last seconds. */
    uint64_t mark_ns, mark_bytes;
    double rate_bps;
};

void progress_line_init(struct progress_line *line, bool wanted);
/* `progress` as stillness_look has left it; `idle_ns` is its stillness_idle_ns. */
void progress_line_draw(struct progress_line *line, const struct transfer_progress *progress,
                        uint64_t idle_ns, uint64_t now_ns);
/* Before anything else is printed on stderr. */
void progress_line_clear(struct progress_line *line);
/* The text for a terminal of `width` columns; for tests. Returns `text`. */
char *progress_line_text(char *text, size_t capacity, unsigned width,
                         const struct transfer_progress *progress, double rate_bps,
                         uint64_t idle_ns, uint64_t now_ns);

#endif
