/* What the facts of a path mean: one finding a line, with its verdict and what to do about it.
 * Pure: the same facts give the same findings. */
#ifndef PETREL_CLI_DOCTOR_JUDGE_H
#define PETREL_CLI_DOCTOR_JUDGE_H

#include "cli/measure/doctor_facts.h"

#define DOCTOR_RATE_SMALL_BPS UINT64_C(10000000) /* a path of less is called slow */

enum verdict {
    VERDICT_OK,
    VERDICT_SLOW,    /* works, but costs speed */
    VERDICT_FAILED,  /* does not work */
    VERDICT_UNKNOWN, /* could not be looked at */
    VERDICT_COUNT
};

struct finding {
    char name[40]; /* "UDP 192.0.2.7", "loss to host" */
    enum verdict verdict;
    enum error_kind kind; /* of a failure: decides the exit code */
    char text[360];
    char next[360]; /* "" when there is nothing to do */
};

#define FINDINGS_MAX 40u

struct findings {
    struct finding list[FINDINGS_MAX];
    unsigned count;
    /* Of a copy of one large file, in each direction; 0 when unknown. */
    uint64_t expected_to_bps, expected_from_bps;
    const char *limit_to, *limit_from; /* "the path", "the disk there", ... */
};

extern const char *const verdict_names[VERDICT_COUNT]; /* "ok", "slow", "failed", "unknown" */

void doctor_judge(const struct doctor_facts *facts, struct findings *findings);
/* EXIT_OK unless something failed: then the first failure's. */
int findings_exit_code(const struct findings *findings);

/* The parts, in the order of the list; each adds its findings. doctor_judge_udp.c: */
void judge_udp(const struct doctor_facts *facts, struct findings *findings);
/* doctor_judge_path.c: */
void judge_path(const struct doctor_facts *facts, struct findings *findings);
void judge_rate(const struct doctor_facts *facts, struct findings *findings);
/* Adds an empty finding; never NULL (a full list's last one is overwritten). */
struct finding *add_finding(struct findings *findings, enum verdict verdict, const char *format,
                            ...) __attribute__((format(printf, 3, 4)));
void finding_say(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends to what was said. */
void finding_add(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void finding_next(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "ssh ... HOST COMMAND" with what the user gave for ssh; `text` of FINDING_COMMAND_MAX. */
char *command_there(char *text, const struct doctor_facts *facts, const char *command);
#define FINDING_COMMAND_MAX 280u

#endif
