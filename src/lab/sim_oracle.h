/* Watches a simulated session from above and says when it breaks a promise of docs/protocol.md.
 *
 * It sees plaintexts (through lab/sim_aead.h), so it needs no help from the code under test:
 *  - no pair of key and number is used twice, numbers of a lane only rise;
 *  - pieces of one block agree on PACKED and on the end, and stay within BLOCK_SIZE;
 *  - a sender begins no more blocks than the credit that reached it;
 *  - an ack reports exactly what arrived: nothing more, and within its bitmap nothing less;
 *  - a receiver never takes credit back.
 * One oracle a world; hosts are told apart by the connection ids that the world hands out.
 */
#ifndef PETREL_LAB_SIM_ORACLE_H
#define PETREL_LAB_SIM_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crypto/aead.h"

#define SIM_HOSTS_MAX 6

struct sim_oracle;

struct sim_oracle *sim_oracle_new(void);
void sim_oracle_free(struct sim_oracle *oracle);

/* Host `host` receives on connection_base..+15; its peer's hello grants `credit` blocks to it. */
void sim_oracle_add_host(struct sim_oracle *oracle, unsigned host, unsigned peer,
                         uint32_t connection_base);
void sim_oracle_grant(struct sim_oracle *oracle, unsigned host, uint32_t credit);

/* Whether what is sealed and opened from now on goes by the stream lane; false at first. */
void sim_oracle_on_stream(struct sim_oracle *oracle, bool on_stream);
void sim_oracle_sealed(struct sim_oracle *oracle, const uint8_t *aad, size_t aad_size,
                       const uint8_t *plain, size_t size);
void sim_oracle_opened(struct sim_oracle *oracle, const uint8_t *aad, size_t aad_size,
                       const uint8_t *plain, size_t size);
void sim_oracle_pair(struct sim_oracle *oracle, const uint8_t key[AEAD_KEY_SIZE], uint64_t number);

struct sim_oracle_counts {
    uint64_t data_packets, control_packets; /* sealed by this host */
    uint64_t data_bytes;                    /* bytes of blocks in them */
    uint64_t acks, ack_bytes;               /* ACK frames, whole control packets that hold one */
    uint64_t blocks_begun, credit;
};
void sim_oracle_counts(const struct sim_oracle *oracle, unsigned host,
                       struct sim_oracle_counts *counts);

/* The first broken promise, or NULL. */
const char *sim_oracle_failure(const struct sim_oracle *oracle);

#endif
