/* The near end of measurements: an SSH channel to a petrel that does what it is asked. Requests and
 * answers are measure_words.h's. */
#ifndef PETREL_CLI_MEASURE_LINK_H
#define PETREL_CLI_MEASURE_LINK_H

#include "cli/measure/measure_words.h"
#include "cli/start/ssh_start.h"

struct measure_link {
    struct ssh_channel channel;
    const struct ssh_options *ssh;
    const char *host;
    uint64_t ssh_ns;  /* from ssh's start to petrel's answer */
    uint64_t ping_ns; /* a question and its answer over SSH: an upper bound of the round trip */
    unsigned unread;  /* answers to knocks, which nobody waits for */
    bool broken;      /* the dialogue is over: no answer came, or a session has the channel */
};

/* Starts ssh and petrel over there. ERROR_VERSION also when that petrel takes no measurements.
 * Close it also after a failure. */
bool measure_link_open(struct measure_link *link, const struct ssh_options *ssh, const char *host,
                       uint16_t first_port, uint16_t last_port, struct error *error);
void measure_link_close(struct measure_link *link);

/* Asks and waits for the answer, at most `wait_ns`. `table` and `into` as in measure_read_answer.
 */
bool measure_ask(struct measure_link *link, const struct measure_request *request, uint64_t wait_ns,
                 const struct field *table, void *into, struct error *error);

/* A whole session: asks the far end for its part, runs ours, asks what came of theirs. `request`
 * names the far end's part; its secret and id are drawn here. The candidates are those of the
 * channel, or `only` if that is not NULL (whose port is not looked at). `source`: when this end
 * sends, what it reads, as of disk_source, instead of random blocks; NULL for these. Both figures
 * are filled as far as it went. False with the better known of both ends' errors. */
bool measure_session(struct measure_link *link, struct measure_request *request,
                     const struct address *only, const char *source, struct session_figures *near,
                     struct session_figures *far, struct error *error);

#endif
