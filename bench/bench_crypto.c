/* How fast packets are sealed and opened, per provider and size, and how fast blocks are hashed,
 * beside the BLAKE3 library's own hasher. One thread; prints the best of several short runs, since
 * on a shared machine only the best says what the code can do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <blake3.h>

#include "crypto/aead.h"
#include "crypto/tree_hash.h"

#define RUNS 12
#define RUN_NS 20e6

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

struct job {
    const struct aead_provider *provider;
    struct aead_key *key;
    uint8_t *plain, *sealed;
    size_t size;
    uint64_t number;
    uint8_t hash[TREE_HASH_SIZE];
};

static const uint8_t header[10] = {0x10};

static void seal_one(struct job *job)
{
    uint8_t nonce[AEAD_NONCE_SIZE] = {0};
    job->number++;
    memcpy(nonce + 4, &job->number, 8);
    job->provider->seal(job->key, nonce, header, sizeof header, job->plain, job->size, job->sealed);
}

/* Opens what seal_one made last. */
static void open_one(struct job *job)
{
    uint8_t nonce[AEAD_NONCE_SIZE] = {0};
    memcpy(nonce + 4, &job->number, 8);
    if (!job->provider->open(job->key, nonce, header, sizeof header, job->sealed,
                             job->size + AEAD_TAG_SIZE, job->plain))
        abort();
}

static void hash_block(struct job *job)
{
    tree_hash_block(job->plain, job->size, 1, job->hash);
}

static void hash_whole(struct job *job)
{
    tree_hash_whole(job->plain, job->size, job->hash);
}

static void hash_by_library(struct job *job)
{
    blake3_hasher hasher;
    blake3_hasher_init(&hasher);
    blake3_hasher_update(&hasher, job->plain, job->size);
    blake3_hasher_finalize(&hasher, job->hash, TREE_HASH_SIZE);
}

/* Nanoseconds for one call. */
static double run_once(void (*work)(struct job *), struct job *job)
{
    double start = now_ns(), end;
    unsigned long count = 0;
    do {
        for (int i = 0; i < 16; i++)
            work(job);
        count += 16;
        end = now_ns();
    } while (end - start < RUN_NS);
    return (end - start) / (double)count;
}

static double gbps(const struct job *job, double ns)
{
    return 8.0 * (double)job->size / ns;
}

static void measure_sealing(const struct aead_provider *provider, uint8_t *plain, uint8_t *sealed)
{
    static const size_t sizes[] = {64, 1174, 1374, 1446, 8947, 16358};
    uint8_t key[AEAD_KEY_SIZE] = {1};
    struct job job = {.provider = provider, .plain = plain, .sealed = sealed};

    job.key = provider->key_new(key, NULL);
    if (job.key == NULL)
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double seal = 1e18, open = 1e18;
        job.size = sizes[i];
        for (int run = 0; run < RUNS; run++) {
            double ns = run_once(seal_one, &job);
            seal = ns < seal ? ns : seal;
            ns = run_once(open_one, &job);
            open = ns < open ? ns : open;
        }
        printf("%-9s %-18s %6zu bytes  seal %7.1f ns %6.1f Gbit/s  open %7.1f ns %6.1f Gbit/s\n",
               provider->name,
               provider->suite == AEAD_AES_256_GCM ? "AES-256-GCM" : "ChaCha20-Poly1305", job.size,
               seal, gbps(&job, seal), open, gbps(&job, open));
    }
    provider->key_free(job.key);
}

static void measure_hashing(uint8_t *plain)
{
    static const size_t sizes[] = {1024, 16384, 65536, 524288, TREE_HASH_BLOCK};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct job job = {.plain = plain, .size = sizes[i]};
        double block = 1e18, whole = 1e18, library = 1e18;
        for (int run = 0; run < RUNS; run++) {
            double ns = run_once(hash_block, &job);
            block = ns < block ? ns : block;
            ns = run_once(hash_whole, &job);
            whole = ns < whole ? ns : whole;
            ns = run_once(hash_by_library, &job);
            library = ns < library ? ns : library;
        }
        printf("hash %8zu bytes  block %5.1f  whole %5.1f  library %5.1f Gbit/s  ratio %.2f\n",
               job.size, gbps(&job, block), gbps(&job, whole), gbps(&job, library),
               library / block);
    }
}

int main(void)
{
    uint8_t *plain = calloc(1, TREE_HASH_BLOCK), *sealed = calloc(1, TREE_HASH_BLOCK);
    if (plain == NULL || sealed == NULL)
        return 1;
    for (size_t i = 0; i < TREE_HASH_BLOCK; i++)
        plain[i] = (uint8_t)(i * 7);
    measure_hashing(plain);
    for (size_t i = 0; aead_providers[i] != NULL; i++) {
        if (aead_providers[i]->available())
            measure_sealing(aead_providers[i], plain, sealed);
    }
    free(plain);
    free(sealed);
    return 0;
}
