/* The local socket through which a server is asked and told things while it runs: of mode 0600, so
 * for its own user and root. The server's side never blocks: it is stepped from a loop of polls.
 */
#ifndef PETREL_SERVE_CONTROL_SOCKET_H
#define PETREL_SERVE_CONTROL_SOCKET_H

#include <poll.h>

#include "serve/control_words.h"

#define CONTROL_CLIENTS_MAX 4u /* at once; more wait in the queue of the system */
#define CONTROL_POLLS (1 + CONTROL_CLIENTS_MAX)
#define CONTROL_PATIENCE_NS UINT64_C(5000000000) /* for a client that says or takes nothing */
#define CONTROL_ANSWER_MAX (1u << 20)

/* Where the socket is when nobody says: control in RUNTIME_DIRECTORY (systemd's), else in
 * XDG_RUNTIME_DIR/petrel, else in /run/petrel. For the caller to free; NULL without memory. */
char *control_socket_default_path(struct error *error);

/* ---- the server ---- */

struct control_socket;

/* Gives the text after "ok", on the heap, or NULL and an error. */
typedef char *(*control_answer)(void *context, const struct control_request *request,
                                struct error *error);

/* Replaces a socket that nobody listens at any more; makes the last directory of the path, of mode
 * 0700, when it is missing. ERROR_EXISTS when another server is there. */
struct control_socket *control_socket_open(const char *path, control_answer answer, void *context,
                                           struct error *error);
/* Removes the file, too. */
void control_socket_free(struct control_socket *control);
/* Closes the descriptors, in a child: the file stays. */
void control_socket_forget(struct control_socket *control);
/* Fills `polls` with what to wait for; returns how many. */
unsigned control_socket_polls(const struct control_socket *control,
                              struct pollfd polls[CONTROL_POLLS]);
/* When control_socket_step has to be called at the latest; TIME_NEVER. */
uint64_t control_socket_deadline(const struct control_socket *control);
/* Accepts, reads, answers, as far as it goes. */
void control_socket_step(struct control_socket *control, uint64_t now_ns);

/* ---- who asks ---- */

/* The text of the answer, on the heap; NULL and the server's error, or ERROR_NOT_FOUND when there
 * is no server. Waits at most 10 s. */
char *control_ask(const char *path, const struct control_request *request, struct error *error);

#endif
