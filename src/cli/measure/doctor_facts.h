/* What petrel doctor has measured of one path, before anybody judges it. */
#ifndef PETREL_CLI_DOCTOR_FACTS_H
#define PETREL_CLI_DOCTOR_FACTS_H

#include "cli/measure/measure_words.h"
#include "cli/start/far_addresses.h"
#include "cli/start/ssh_start.h"
#include "measure/udp_probe.h"

struct doctor_disk {
    bool tried;
    struct error error;
    struct disk_speed speed;
};

/* One session of memory blocks, in one direction. */
struct doctor_run {
    bool tried;
    struct error error;
    struct session_figures sender, receiver;
};

struct doctor_facts {
    const char *host;              /* as the user wrote it */
    const struct ssh_options *ssh; /* what the user gave for ssh */
    uint16_t first_port, last_port;

    /* SSH, and what answered there. */
    uint64_t ssh_ns, ping_ns; /* until petrel answered, or until that was given up */
    uint64_t login_ns;        /* of ssh_ns, until the login was seen over; 0: it was not seen */
    enum ssh_fault fault;
    bool ssh_reused;          /* a connection kept from before, so no login */
    struct error start_error; /* no petrel could be asked: nothing below is known but `near` */
    char far_version[32];
    bool jumped;
    struct machine_facts near, far;
    bool has_far;
    struct error far_error; /* the dialogue broke later */

    /* UDP: light packets to every port of every address. */
    struct error echo_error; /* not one port could be opened over there */
    struct measure_started echo;
    struct measure_arrivals arrivals;
    struct probe_target targets[FAR_ADDRESSES_MAX];
    unsigned target_count;
    /* The target whose address and port all that follows used; -1: none at which a copy looks. */
    int chosen;
    uint16_t chosen_port; /* as a copy finds it */
    struct probe_loss loss;
    uint16_t interface_mtu;
    struct probe_size size_there, size_both; /* packets of the interface's MTU */
    /* Where packets of the size that a session begins with do not come back: about the largest that
     * do (whole IP packets), and whether the larger ones arrive there at least. 0: not so. */
    unsigned size_passing;
    bool large_arrive;

    struct doctor_run to, from;    /* over UDP, memory to memory */
    struct doctor_run with_disks;  /* there, from the source's disk to the destination's */
    struct doctor_run through_ssh; /* in their place when no UDP passes */
    struct doctor_disk source, destination;
};

#endif
