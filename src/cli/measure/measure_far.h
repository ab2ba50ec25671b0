/* The far end of petrel doctor and petrel bench: does what measure_words.h's requests on stdin ask
 * for, one after another, and answers each on stdout. Ends when stdin ends, after a session in the
 * channel itself, or when nothing was asked for two minutes. */
#ifndef PETREL_CLI_MEASURE_FAR_H
#define PETREL_CLI_MEASURE_FAR_H

#include "base/address.h"

/* `client`: where to knock when that is asked for; family 0: nowhere. Returns the program's exit
 * code. */
int measure_serve(const struct address *client);

#endif
