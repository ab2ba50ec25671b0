/* The command line of petrel-lab blast. */
#include "lab/blast.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "lab/command.h"

#define DEFAULT_PORT "5300"
#define DEFAULT_SIZE 1400u
#define DEFAULT_TRAIN 44u

static bool set_address(struct blast_options *options, const char *host, const char *port,
                        struct error *error)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    int problem = getaddrinfo(host, port, &hints, &found);
    if (problem != 0)
        return error_set(error, ERROR_USAGE, "%s port %s: %s", host, port, gai_strerror(problem));
    memcpy(&options->address, found->ai_addr, found->ai_addrlen);
    options->address_size = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

struct reading {
    struct blast_options options;
    const char *host, *port;
};

static bool read_option(struct reading *reading, const char *name, const char *value,
                        struct error *error)
{
    struct blast_options *options = &reading->options;
    if (strcmp(name, "--to") == 0 || strcmp(name, "--bind") == 0)
        reading->host = value;
    else if (strcmp(name, "--port") == 0)
        reading->port = value;
    else if (strcmp(name, "--rate") == 0)
        return parse_rate(value, &options->rate_bps, error);
    else if (strcmp(name, "--size") == 0)
        return parse_unsigned(value, BLAST_TRAIN_MAX_BYTES, &options->size_bytes, error);
    else if (strcmp(name, "--train") == 0)
        return parse_unsigned(value, BLAST_SEGMENTS_MAX, &options->train, error);
    else if (strcmp(name, "--time") == 0)
        return parse_time(value, &options->duration_ns, error);
    else if (strcmp(name, "--count") == 0)
        return parse_unsigned(value, UINT64_MAX, &options->count, error);
    else if (strcmp(name, "--ready") == 0)
        options->ready_path = value;
    else if (strcmp(name, "--idle") == 0)
        return parse_time(value, &options->idle_ns, error);
    else
        return error_set(error, ERROR_USAGE, "unknown option %s", name);
    return true;
}

static bool read_options(struct reading *reading, int count, char **arguments, struct error *error)
{
    struct blast_options *options = &reading->options;
    for (int i = 2; i < count; i++) {
        if (strcmp(arguments[i], "--plain") == 0) {
            options->plain = true;
            continue;
        }
        if (i + 1 == count)
            return error_set(error, ERROR_USAGE, "%s needs a value", arguments[i]);
        if (!read_option(reading, arguments[i], arguments[i + 1], error))
            return false;
        i++;
    }
    if (options->size_bytes < BLAST_HEADER || options->train == 0)
        return error_set(error, ERROR_USAGE,
                         "a datagram has at least %u bytes, a train one of them", BLAST_HEADER);
    while (options->train * options->size_bytes > BLAST_TRAIN_MAX_BYTES)
        options->train--;
    if (options->duration_ns == 0 && options->count == 0)
        options->duration_ns = 5 * NS_PER_S;
    return set_address(options, reading->host, reading->port, error);
}

int command_blast(int count, char **arguments)
{
    struct error error = {0};
    struct reading reading = {
        .options = {.size_bytes = DEFAULT_SIZE, .train = DEFAULT_TRAIN, .idle_ns = 2 * NS_PER_S},
        .port = DEFAULT_PORT};
    bool sends = count > 1 && strcmp(arguments[1], "send") == 0;
    if (!sends && (count < 2 || strcmp(arguments[1], "receive") != 0)) {
        error_set(&error, ERROR_USAGE, "blast needs send or receive");
        return command_fail(&error);
    }
    reading.host = sends ? NULL : "0.0.0.0";
    if (!read_options(&reading, count, arguments, &error))
        return command_fail(&error);
    if (sends && reading.host == NULL) {
        error_set(&error, ERROR_USAGE, "blast send needs --to ADDRESS");
        return command_fail(&error);
    }
    bool done =
        sends ? blast_send(&reading.options, &error) : blast_receive(&reading.options, &error);
    return done ? EXIT_OK : command_fail(&error);
}
