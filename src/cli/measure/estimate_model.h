/* How long a copy takes, foretold by one formula with a few constants for each program.
 *
 * The constants are fitted to measured cells by petrel-lab fit (lab/model.json); what each means,
 * and the same formula, stand in lab/model.py. Nothing here knows a path: all is said by the
 * caller.
 */
#ifndef PETREL_CLI_ESTIMATE_MODEL_H
#define PETREL_CLI_ESTIMATE_MODEL_H

#include <stddef.h>

struct estimate_path {
    double rtt_s, loss; /* loss: 0 to below 1, one way */
    double rate_bps;    /* of the line, in IP packets; 0 for no limit */
    double size_bytes;
};

struct estimate_constants {
    double payload, fixed_s, rtts, loss_rtts, start, share, loss_cost, loss_rtt_cost, window_bytes,
        strength, processor_bytes_per_s;
};

struct estimate_program {
    const char *name, *title;
    struct estimate_constants constants;
    double error_percent; /* median over cells that were not fitted; negative: never measured */
};

/* Ends with a row whose name is NULL; the first is petrel. */
extern const struct estimate_program estimate_programs[];
extern const char *const estimate_fitted_on;

/* Bytes a second once it runs. */
double estimate_rate(const struct estimate_constants *c, const struct estimate_path *path);
/* Of the whole command. */
double estimate_seconds(const struct estimate_constants *c, const struct estimate_path *path);

#endif
