/* A server at a shared port: its client's first packets, which come by the process at the door. */
#include "net/driver_internal.h"
#include "net/handed.h"

#define REFUSAL_REPEATS 2u
#define HANDED_TURN 64u /* packets in a row */

static void on_readable(void *context, int descriptor, unsigned ready)
{
    struct driver *driver = context;
    (void)descriptor;
    if ((ready & LOOP_HANGUP) != 0)
        driver_leave_handed(driver);
    else
        driver->handed_readable = true;
}

bool driver_take_handed(struct driver *driver, struct error *error)
{
    if (driver->config.seat == 0)
        return true;
    driver->handed_watched = loop_add(worker_loop(driver->workers[0]), driver->config.handed,
                                      LOOP_READ, on_readable, driver, error);
    driver->handed_readable = driver->handed_watched;
    return driver->handed_watched;
}

void driver_leave_handed(struct driver *driver)
{
    if (driver->handed_watched)
        loop_remove(worker_loop(driver->workers[0]), driver->config.handed);
    driver->handed_watched = driver->handed_readable = false;
}

bool driver_receive_handed(struct driver *driver, uint64_t now_ns)
{
    struct handed_packet packet;
    bool any = false;
    for (unsigned i = 0; driver->handed_readable && i < HANDED_TURN; i++) {
        driver->handed_readable = handed_receive(driver->config.handed, &packet);
        if (!driver->handed_readable)
            break;
        any = true;
        struct udp_socket *socket =
            udp_listener_socket(driver->config.listener, 0, packet.from.family);
        if (socket != NULL &&
            opening_receive(driver->opening, &packet.from, packet.bytes, packet.size, now_ns))
            udp_answer_from(socket, &packet.from, &packet.local);
    }
    return any;
}

void driver_repeat_refusal(struct driver *driver, uint64_t now_ns)
{
    if (driver->config.seat == 0)
        return;
    for (unsigned i = 0; i < REFUSAL_REPEATS; i++) {
        opening_repeat_refusal(driver->opening);
        driver_send_flights(driver, now_ns);
    }
}
