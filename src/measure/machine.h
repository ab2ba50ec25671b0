/* What this machine brings to a transfer: processor, sealing and hashing speed, socket buffers,
 * offload. Measured on the calling thread, for about an eighth of a second. */
#ifndef PETREL_MEASURE_MACHINE_H
#define PETREL_MEASURE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

struct machine_facts {
    char system[96]; /* "Linux 6.1.0 x86_64" */
    unsigned cores;  /* that this process may use */
    double load;     /* runnable tasks, mean of the last minute; negative: unknown */
    uint64_t memory_bytes;
    bool aes_hardware;
    char features[96];    /* of the processor, as far as they matter: "aes pclmul avx2" */
    char sealing[48];     /* "AES-256-GCM by ipsec-mb" */
    uint64_t sealing_bps; /* packets of 1400 bytes, one core */
    uint64_t hashing_bps; /* BLAKE3 of blocks, one core */
    unsigned receive_buffer, send_buffer; /* bytes granted to a UDP socket */
    bool segmentation, coalescing;        /* trains can be sent and received as one */
    bool ipv4, ipv6;
    char congestion[96]; /* TCP's algorithms that a program may ask for, separated by blanks */
};

void machine_facts(struct machine_facts *facts);

/* Only for tests: claims from now on that the processor has no AES, and measures what it would use
 * then. */
void machine_test_without_aes(void);

#endif
