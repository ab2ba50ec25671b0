/* What both ends of a measuring session set up alike, each from the request that names the far
 * end's part. */
#ifndef PETREL_CLI_MEASURE_JOB_H
#define PETREL_CLI_MEASURE_JOB_H

#include "cli/measure/measure_words.h"

/* Fills everything but addresses, listener, stream descriptors and `stop`. `client`: this end takes
 * the other role. */
void measure_job_prepare(struct session_run *run, const struct measure_request *request,
                         bool client);
/* With a path in the request: opens the file that the receiving end writes to, if that is ours. */
bool measure_job_open_disk(struct session_run *run, const struct measure_request *request,
                           struct error *error);
void measure_job_release(struct session_run *run);

#endif
