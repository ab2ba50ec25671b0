/* What two petrels say to each other about measurements: requests, and every kind of answer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measure/measure_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void read_request(const char *line)
{
    struct measure_request request, back;
    struct error error = {0};
    char again[MEASURE_LINE_MAX];
    if (!measure_read_request(&request, line, &error)) {
        require(error.kind != ERROR_NONE);
        return;
    }
    require(request.what < MEASURE_DO_COUNT && request.lanes <= LANES_MAX);
    require(request.streams <= TCP_STREAMS_MAX && request.time_ns <= MEASURE_TIME_MAX_NS);
    require(memchr(request.path, '\0', sizeof(request.path)) != NULL);
    require(measure_write_request(&request, again, sizeof(again)) > 0);
    again[strcspn(again, "\n")] = '\0';
    require(measure_read_request(&back, again, &error));
    require(back.what == request.what && back.time_ns == request.time_ns);
}

static void read_answers(const char *line)
{
    static union {
        struct machine_facts facts;
        struct disk_speed disk;
        struct measure_started started;
        struct measure_arrivals arrivals;
        struct session_figures session;
        struct tcp_figures tcp;
    } into;
    static const struct field *const tables[] = {
        measure_facts_fields,    measure_disk_fields,    measure_started_fields,
        measure_arrivals_fields, session_figures_fields, tcp_figures_fields,
    };
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        struct error error = {0};
        memset(&into, 0, sizeof(into));
        bool good = measure_read_answer(line, tables[i], &into, &error);
        require(good == (error.kind == ERROR_NONE));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *line = malloc(size + 1);
    if (line == NULL)
        return 0;
    memcpy(line, data, size);
    line[size] = '\0';
    read_request(line);
    read_answers(line);
    free(line);
    return 0;
}
