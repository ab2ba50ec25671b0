/* What the two halves of transfer/ share: the transfer's state and what either half does to it.
 * Private to this folder. */
#ifndef PETREL_TRANSFER_HALF_H
#define PETREL_TRANSFER_HALF_H

#include "transfer/allowance.h"
#include "transfer/buffers.h"
#include "transfer/control.h"
#include "transfer/transfer.h"

#define TICK_NS (100 * UINT64_C(1000000)) /* PROGRESS, TOTALS, and the pool's size */
#define INBOX_SIZE 16384u

/* What a half answers to. `report` and `message` leave on false: `report` because the report has
 * to wait, `message` because the message is wrong, with the error set. */
struct half {
    bool (*attach)(struct transfer *transfer, uint64_t now_ns, struct error *error);
    void (*event)(struct transfer *transfer, const struct session_event *event, uint64_t now_ns);
    bool (*report)(struct transfer *transfer, const struct work_report *report, uint64_t now_ns);
    bool (*message)(struct transfer *transfer, const struct message *message, uint64_t now_ns,
                    struct error *error);
    bool (*step)(struct transfer *transfer, uint64_t now_ns);
    /* The session is closed without an error of its own or ours: did that end well? */
    bool (*finished)(const struct transfer *transfer);
    void (*release)(struct transfer *transfer);
};

struct sender;
struct receiver;
extern const struct half sender_half, receiver_half;
struct sender *sender_new(void);
struct receiver *receiver_new(void);
uint32_t receiver_initial_credit(const struct transfer *transfer);

struct transfer {
    struct transfer_config config;
    const struct half *half;
    struct sender *sender; /* one of these two */
    struct receiver *receiver;
    struct session *session;
    struct work *work;
    struct buffers buffers;
    struct allowance allowance;
    bool allowance_waits; /* something was held back by it in the last step */

    struct control_in in;
    struct control_out out;
    /* Bytes of the control stream are acted on one step after they were read: what the peer sent
     * before them, perhaps over another lane, has become an event by then. */
    uint8_t inbox[INBOX_SIZE];
    struct reader unread;
    unsigned unsupported_said;
    uint64_t list_said; /* bytes of the list of files that were told */
    bool list_open;     /* it is being told, or heard */

    /* The request as it stands: the client's own, or decoded; and a pull's names. */
    const struct transfer_request *request;
    struct transfer_request decoded, names;

    struct transfer_progress progress;
    struct error error;
    uint64_t next_tick_ns;
    bool error_is_peers; /* the peer ended it and gave `error` as the reason */
    bool failed;         /* `error` is final, the session was told */
    bool session_closed; /* SESSION_CLOSED has come */
    bool closing;        /* WORK_CLOSE was put */
    bool work_closed;    /* WORK_CLOSED has come */
};

/* Ends the transfer with `error`: tells the peer, closes the storage. The first error stays. */
void transfer_fail(struct transfer *transfer, const struct error *error, uint64_t now_ns);
void transfer_fail_memory(struct transfer *transfer, uint64_t now_ns);
/* Queues a message; nothing when the session takes no more. */
void transfer_say(struct transfer *transfer, const struct message *message, uint64_t now_ns);
void transfer_put(struct transfer *transfer, const struct work_job *job, uint64_t now_ns);
void transfer_event_file(struct transfer *transfer, enum transfer_event_kind kind, const char *path,
                         size_t path_length, uint64_t size, const uint8_t *hash,
                         const struct error *error);
/* A line for people from our own storage, for both sides. */
void transfer_note(struct transfer *transfer, const struct work_report *report, bool lost,
                   uint64_t now_ns);
/* TRANSFER_FILE_FAILED as the peer's PROBLEM tells it. */
void transfer_event_problem(struct transfer *transfer, const struct message *message);
/* A message's kind and text as an error. */
void transfer_message_error(const struct message *message, struct error *error);
/* The client's REQUEST. False with an error when it is too long. */
bool transfer_say_request(struct transfer *transfer, uint64_t now_ns, struct error *error);
bool transfer_take_request(struct transfer *transfer, const struct message *message,
                           struct error *error);
/* NOTE and UNSUPPORTED, alike on both sides. */
bool transfer_common_message(struct transfer *transfer, const struct message *message,
                             struct error *error);
bool transfer_running(const struct transfer *transfer);
/* Whether the pace lets one more block go; else the deadline is when it does. */
bool transfer_may_go(struct transfer *transfer, uint64_t now_ns);
/* The session's figures as a sender tells them. */
void transfer_figures(const struct session *session, struct sender_figures *figures);

#endif
