#include "cli/report/terminal_line.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

bool terminal_line_read(int tty, char *line, size_t capacity, const volatile int *stop)
{
    size_t length = 0;
    struct pollfd waits = {.fd = tty, .events = POLLIN};
    while (stop == NULL || *stop == 0) {
        char byte;
        if (poll(&waits, 1, 100) <= 0)
            continue;
        ssize_t got = read(tty, &byte, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        if (byte == '\n') {
            line[length] = '\0';
            return true;
        }
        if (length + 1 < capacity)
            line[length++] = byte;
    }
    return false;
}
