#include "measure/machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/block.h"
#include "base/units.h"
#include "crypto/aead.h"
#include "crypto/tree_hash.h"
#include "net/driver.h"
#include "net/udp.h"

#define MEASURE_NS (60 * NS_PER_MS)
#define SEALED_BYTES 1400u
#define SEALS_A_TURN 64u

static bool without_aes;

void machine_test_without_aes(void)
{
    without_aes = true;
}

/* ---- processor ---- */

static void add_word(char *text, size_t capacity, const char *word)
{
    size_t length = strlen(text);
    if (length + strlen(word) + 2 <= capacity)
        snprintf(text + length, capacity - length, "%s%s", length > 0 ? " " : "", word);
}

static void name_features(struct machine_facts *facts)
{
    char *text = facts->features;
    const size_t size = sizeof(facts->features);
#if defined(__x86_64__) || defined(__i386__)
    if (__builtin_cpu_supports("aes") && !without_aes)
        add_word(text, size, "aes");
    if (__builtin_cpu_supports("pclmul"))
        add_word(text, size, "pclmul");
    if (__builtin_cpu_supports("avx2"))
        add_word(text, size, "avx2");
    if (__builtin_cpu_supports("avx512f"))
        add_word(text, size, "avx512");
#else
    if (facts->aes_hardware)
        add_word(text, size, "aes pmull");
#endif
}

static unsigned usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (unsigned)count : 1;
}

static uint64_t speed(uint64_t bytes, uint64_t ns)
{
    return ns > 0 ? (uint64_t)((double)bytes * 8e9 / (double)ns) : 0;
}

/* Of this thread: what others do on the machine is no property of the processor. */
static uint64_t processor_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

static uint64_t sealing_speed(const struct aead_provider *provider)
{
    static const uint8_t key_bytes[AEAD_KEY_SIZE] = {1};
    static uint8_t packet[SEALED_BYTES + AEAD_TAG_SIZE];
    uint8_t nonce[AEAD_NONCE_SIZE] = {0}, aad[16] = {0};
    struct aead_key *key = provider->key_new(key_bytes, NULL);
    if (key == NULL)
        return 0;
    uint64_t until_ns = driver_now() + MEASURE_NS, began_ns = processor_ns(), sealed = 0;
    do {
        for (unsigned i = 0; i < SEALS_A_TURN; i++, sealed++) {
            memcpy(nonce, &sealed, sizeof(sealed));
            if (!provider->seal(key, nonce, aad, sizeof(aad), packet, SEALED_BYTES, packet))
                break;
        }
    } while (driver_now() < until_ns);
    uint64_t took_ns = processor_ns() - began_ns;
    provider->key_free(key);
    return speed(sealed * SEALED_BYTES, took_ns);
}

static void measure_sealing(struct machine_facts *facts)
{
    enum aead_suite suite = facts->aes_hardware ? AEAD_AES_256_GCM : AEAD_CHACHA20_POLY1305;
    const struct aead_provider *provider = aead_best(suite);
    if (provider == NULL)
        return;
    snprintf(facts->sealing, sizeof(facts->sealing), "%s by %s",
             suite == AEAD_AES_256_GCM ? "AES-256-GCM" : "ChaCha20-Poly1305", provider->name);
    facts->sealing_bps = sealing_speed(provider);
}

static uint64_t hashing_speed(void)
{
    uint8_t *block = calloc(1, BLOCK_SIZE), hash[TREE_HASH_SIZE];
    if (block == NULL)
        return 0;
    uint64_t until_ns = driver_now() + MEASURE_NS, began_ns = processor_ns(), hashed = 0;
    do {
        tree_hash_whole(block, BLOCK_SIZE, hash);
        hashed += BLOCK_SIZE;
    } while (driver_now() < until_ns);
    uint64_t took_ns = processor_ns() - began_ns;
    free(block);
    return speed(hashed, took_ns);
}

/* ---- system ---- */

static void look_at_sockets(struct machine_facts *facts)
{
    for (uint8_t family = 4; family <= 6; family += 2) {
        struct udp_socket *socket = udp_open(family, NULL, false, NULL);
        if (socket == NULL)
            continue;
        struct udp_statistics statistics;
        udp_get_statistics(socket, &statistics);
        facts->receive_buffer = statistics.receive_buffer;
        facts->send_buffer = statistics.send_buffer;
        facts->segmentation = statistics.segmentation;
        facts->coalescing = statistics.coalescing;
        *(family == 4 ? &facts->ipv4 : &facts->ipv6) = true;
        udp_close(socket);
    }
}

static void read_first_line(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "re");
    text[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(text, (int)capacity, file) == NULL)
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

void machine_facts(struct machine_facts *facts)
{
    memset(facts, 0, sizeof(*facts));
    struct utsname name;
    if (uname(&name) == 0)
        snprintf(facts->system, sizeof(facts->system), "%.20s %.40s %.20s", name.sysname,
                 name.release, name.machine);
    facts->cores = usable_cores();
    double load;
    facts->load = getloadavg(&load, 1) == 1 ? load : -1;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0)
        facts->memory_bytes = (uint64_t)pages * (uint64_t)page;
    facts->aes_hardware = aead_has_aes_hardware() && !without_aes;
    name_features(facts);
    look_at_sockets(facts);
    read_first_line("/proc/sys/net/ipv4/tcp_available_congestion_control", facts->congestion,
                    sizeof(facts->congestion));
    measure_sealing(facts);
    facts->hashing_bps = hashing_speed();
}
