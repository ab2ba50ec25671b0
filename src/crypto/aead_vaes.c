/* AES-256-GCM on x86-64 processors that encrypt two blocks an instruction (VAES, VPCLMULQDQ on
 * 256-bit registers: AMD since Zen 3, Intel since Alder Lake). ipsec-mb has such code for AVX-512
 * only. After NIST SP 800-38D; the field arithmetic after Gueron and Kounavis, "Intel Carry-Less
 * Multiplication Instruction and its Usage for Computing the GCM Mode" (2014).
 *
 * Field elements are kept as integers of their bytes in reverse order: bit i is the coefficient of
 * x^(127-i). A product of two is then one bit too far to the right, which is mended ahead of time:
 * the powers of H are kept times x. Sixteen blocks at once are multiplied by H^16 to H^1, summed
 * up, and reduced once. No table is looked up and no branch taken by secret bytes. */
#include <cpuid.h>
#include <immintrin.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "crypto/aead_providers.h"
#include "crypto/primitives.h"

#define WIDE __attribute__((target("avx2,aes,pclmul,vaes,vpclmulqdq")))
#define INLINE WIDE static inline __attribute__((always_inline))

/* Compilers would load all round keys ahead and sum up in trees, and then lack registers. */
#define IN_ORDER(wide) __asm__("" : "+x"(wide))

#define CPUID_VAES (1u << 9) /* leaf 7, ecx */
#define CPUID_VPCLMULQDQ (1u << 10)

#define BLOCK 16u
#define ROUNDS 14u
#define KEY_WORDS 8u
#define PAIR (2 * BLOCK)
#define PAIRS 8u /* encrypted at once, a group */
#define GROUP (PAIRS * PAIR)
#define POWERS                                                                                     \
    18u /* the end of a packet takes 17, with the block of lengths; even to align them             \
         */

struct aead_key {
    _Alignas(64) __m128i round[ROUNDS + 1];
    _Alignas(64) __m128i power[POWERS + 1]; /* power[POWERS - n] is H^n, times x; last 0 */
};

/* ---- the cipher ---- */

/* AES's SubWord: with all columns alike its ShiftRows changes nothing. */
INLINE uint32_t substitute_word(uint32_t word)
{
    __m128i same = _mm_set1_epi32((int)word);
    return (uint32_t)_mm_cvtsi128_si32(_mm_aesenclast_si128(same, _mm_setzero_si128()));
}

WIDE static void expand_key(struct aead_key *key, const uint8_t bytes[AEAD_KEY_SIZE])
{
    uint32_t words[4 * (ROUNDS + 1)], constant = 1;
    memcpy(words, bytes, AEAD_KEY_SIZE);
    for (unsigned i = KEY_WORDS; i < 4 * (ROUNDS + 1); i++) {
        uint32_t word = words[i - 1];
        if (i % KEY_WORDS == 0) {
            word = substitute_word(word >> 8 | word << 24) ^ constant;
            constant <<= 1;
        } else if (i % KEY_WORDS == 4) {
            word = substitute_word(word);
        }
        words[i] = words[i - KEY_WORDS] ^ word;
    }
    memcpy(key->round, words, sizeof words);
    wipe(words, sizeof words);
}

INLINE __m128i encrypt_block(const struct aead_key *key, __m128i block)
{
    block = _mm_xor_si128(block, key->round[0]);
#pragma GCC unroll 13
    for (unsigned r = 1; r < ROUNDS; r++)
        block = _mm_aesenc_si128(block, key->round[r]);
    return _mm_aesenclast_si128(block, key->round[ROUNDS]);
}

INLINE __m256i round_key(const struct aead_key *key, unsigned round)
{
    __m256i wide = _mm256_broadcastsi128_si256(key->round[round]);
    IN_ORDER(wide);
    return wide;
}

INLINE __m256i reverse_pair(__m256i pair)
{
    const __m256i order = _mm256_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f,
                                            0x0001020304050607, 0x08090a0b0c0d0e0f);
    return _mm256_shuffle_epi8(pair, order);
}

INLINE __m128i reverse(__m128i block)
{
    return _mm_shuffle_epi8(block, _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f));
}

/* The next group of counter blocks; *counters, two of them in reverse, moves on. */
INLINE void next_counters(const struct aead_key *key, __m256i *counters, __m256i *stream)
{
    const __m256i two = _mm256_set_epi32(0, 0, 0, 2, 0, 0, 0, 2);
    __m256i wide = round_key(key, 0);
#pragma GCC unroll 8
    for (unsigned i = 0; i < PAIRS; i++) {
        stream[i] = _mm256_xor_si256(reverse_pair(*counters), wide);
        *counters = _mm256_add_epi32(*counters, two);
        IN_ORDER(*counters);
    }
}

INLINE void one_round(const struct aead_key *key, unsigned round, __m256i *stream)
{
    __m256i wide = round_key(key, round);
#pragma GCC unroll 8
    for (unsigned i = 0; i < PAIRS; i++)
        stream[i] = _mm256_aesenc_epi128(stream[i], wide);
}

INLINE __m256i load(const uint8_t *bytes)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)bytes);
}

INLINE void store(uint8_t *bytes, __m256i pair)
{
    _mm256_storeu_si256((__m256i *)(void *)bytes, pair);
}

/* The last round, which makes a group's worth of key stream, and its use. */
INLINE void apply(const struct aead_key *key, __m256i *stream, const uint8_t *in, uint8_t *out)
{
    __m256i wide = round_key(key, ROUNDS);
#pragma GCC unroll 8
    for (unsigned i = 0; i < PAIRS; i++) {
        __m256i pair = load(in + PAIR * i);
        store(out + PAIR * i, _mm256_xor_si256(pair, _mm256_aesenclast_epi128(stream[i], wide)));
    }
}

/* ---- the hash ---- */

/* A product not yet reduced, or the sum of such: bits from 0, 64 and 128 on. */
struct product {
    __m256i low, middle, high;
};

INLINE void clear(struct product *sum)
{
    sum->low = sum->middle = sum->high = _mm256_setzero_si256();
}

INLINE __m256i pair_of(__m128i first, __m128i second)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}

INLINE void add_product(struct product *sum, __m256i pair, __m256i powers)
{
    __m256i one = _mm256_clmulepi64_epi128(pair, powers, 0x01);
    __m256i other = _mm256_clmulepi64_epi128(pair, powers, 0x10);
    sum->low = _mm256_xor_si256(sum->low, _mm256_clmulepi64_epi128(pair, powers, 0x00));
    sum->high = _mm256_xor_si256(sum->high, _mm256_clmulepi64_epi128(pair, powers, 0x11));
    sum->middle = _mm256_xor_si256(sum->middle, _mm256_xor_si256(one, other));
    IN_ORDER(sum->low);
    IN_ORDER(sum->middle);
    IN_ORDER(sum->high);
}

INLINE __m256i load_powers(const __m128i *power)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)power);
}

INLINE __m128i add_halves(__m256i pair)
{
    return _mm_xor_si128(_mm256_castsi256_si128(pair), _mm256_extracti128_si256(pair, 1));
}

/* By x^128 = x^7 + x^2 + x + 1, in two steps of 64 bits. */
INLINE __m128i reduce(const struct product *sum)
{
    const __m128i polynomial = _mm_set_epi64x(0, (long long)0xc200000000000000);
    __m128i low = add_halves(sum->low), middle = add_halves(sum->middle);
    __m128i high = _mm_xor_si128(add_halves(sum->high), _mm_srli_si128(middle, 8));
    low = _mm_xor_si128(low, _mm_slli_si128(middle, 8));
    for (int step = 0; step < 2; step++)
        low = _mm_xor_si128(_mm_shuffle_epi32(low, 0x4e),
                            _mm_clmulepi64_si128(low, polynomial, 0x00));
    return _mm_xor_si128(high, low);
}

INLINE __m128i times(__m128i element, __m128i power)
{
    const __m128i zero = _mm_setzero_si128();
    struct product sum;
    clear(&sum);
    add_product(&sum, pair_of(element, zero), pair_of(power, zero));
    return reduce(&sum);
}

INLINE __m128i times_x(__m128i element)
{
    const __m128i polynomial = _mm_set_epi64x((long long)0xc200000000000000, 1);
    __m128i carries = _mm_shuffle_epi32(_mm_srai_epi32(element, 31), 0xff);
    __m128i shifted =
        _mm_or_si128(_mm_slli_epi64(element, 1), _mm_slli_si128(_mm_srli_epi64(element, 63), 8));
    return _mm_xor_si128(shifted, _mm_and_si128(carries, polynomial));
}

WIDE static void make_powers(struct aead_key *key)
{
    __m128i h = times_x(reverse(encrypt_block(key, _mm_setzero_si128())));
    key->power[POWERS] = _mm_setzero_si128();
    key->power[POWERS - 1] = h;
    for (unsigned n = 2; n <= POWERS; n++)
        key->power[POWERS - n] = times(key->power[POWERS - n + 1], h);
}

/* ---- packets ---- */

struct run {
    const struct aead_key *key;
    __m256i counters;
    __m128i hash, first; /* the encrypted first counter, which covers the tag */
    size_t aad_size, size;
};

INLINE uint64_t load64(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* Up to a block, zeros behind it. */
INLINE __m128i load_some(const uint8_t *bytes, size_t size)
{
    uint64_t low = 0, high = 0;
    if (size == BLOCK)
        return _mm_set_epi64x((long long)load64(bytes + 8), (long long)load64(bytes));
    if (size > 8) { /* the last eight bytes, without those that are in `low` */
        low = load64(bytes);
        high = load64(bytes + size - 8) >> (8 * (BLOCK - size));
    } else {
        for (size_t i = 0; i < size; i++)
            low |= (uint64_t)bytes[i] << (8 * i);
    }
    return _mm_set_epi64x((long long)high, (long long)low);
}

INLINE void begin(struct run *run, const struct aead_key *key, const uint8_t *nonce,
                  const uint8_t *aad, size_t aad_size, size_t size)
{
    uint32_t rest;
    memcpy(&rest, nonce + 8, sizeof rest);
    __m128i counter =
        _mm_set_epi64x((long long)((uint64_t)1 << 56 | rest), (long long)load64(nonce));
    *run = (struct run){.key = key, .aad_size = aad_size, .size = size};
    run->first = encrypt_block(key, counter);
    run->counters = _mm256_add_epi32(_mm256_broadcastsi128_si256(reverse(counter)),
                                     _mm256_set_epi32(0, 0, 0, 2, 0, 0, 0, 1));
    run->hash = _mm_setzero_si128();
    for (size_t at = 0; at < aad_size; at += BLOCK) {
        __m128i block = load_some(aad + at, aad_size - at < BLOCK ? aad_size - at : BLOCK);
        run->hash = times(_mm_xor_si128(run->hash, reverse(block)), key->power[POWERS - 1]);
    }
}

/* Key stream for the next group, but for the last round. */
INLINE void make_stream(struct run *run, __m256i *stream)
{
    next_counters(run->key, &run->counters, stream);
#pragma GCC unroll 13
    for (unsigned r = 1; r < ROUNDS; r++)
        one_round(run->key, r, stream);
}

/* The same while a group of sealed bytes is hashed. */
INLINE void make_stream_and_hash(struct run *run, __m256i *stream, const uint8_t *sealed)
{
    const __m128i *power = run->key->power + (POWERS - 2 * PAIRS);
    struct product sum;
    clear(&sum);
    next_counters(run->key, &run->counters, stream);
#pragma GCC unroll 8
    for (unsigned i = 0; i < PAIRS; i++) {
        __m256i pair = reverse_pair(load(sealed + PAIR * i));
        if (i == 0)
            pair = _mm256_xor_si256(pair, pair_of(run->hash, _mm_setzero_si128()));
        one_round(run->key, i + 1, stream);
        add_product(&sum, pair, load_powers(power + 2 * i));
    }
#pragma GCC unroll 5
    for (unsigned r = PAIRS + 1; r < ROUNDS; r++)
        one_round(run->key, r, stream);
    run->hash = reduce(&sum);
}

/* What is left of a packet after its groups: whole pairs, then fewer bytes than a pair. */
struct rest {
    __m256i stream[PAIRS];
    size_t whole, size; /* of the pairs, and of the bytes behind them */
};

INLINE void begin_rest(const struct run *run, struct rest *rest, __m256i *stream)
{
    __m256i wide = round_key(run->key, ROUNDS);
#pragma GCC unroll 8
    for (unsigned i = 0; i < PAIRS; i++)
        rest->stream[i] = _mm256_aesenclast_epi128(stream[i], wide);
    rest->whole = run->size % GROUP / PAIR * PAIR;
    rest->size = run->size % PAIR;
}

INLINE void apply_whole(const struct rest *rest, const uint8_t *in, uint8_t *out)
{
    for (size_t at = 0; at < rest->whole; at += PAIR)
        store(out + at, _mm256_xor_si256(load(in + at), rest->stream[at / PAIR]));
}

INLINE __m256i load_rest(const struct rest *rest, const uint8_t *in)
{
    uint8_t bytes[PAIR] = {0};
    memcpy(bytes, in + rest->whole, rest->size);
    return load(bytes);
}

/* The bytes behind the whole pairs, from `pair` to `out`. Returns them with zeros behind. */
INLINE __m256i apply_rest(const struct rest *rest, __m256i pair, uint8_t *out)
{
    uint8_t bytes[PAIR];
    store(bytes, _mm256_xor_si256(pair, rest->stream[rest->whole / PAIR]));
    memcpy(out + rest->whole, bytes, rest->size);
    memset(bytes + rest->size, 0, PAIR - rest->size);
    return load(bytes);
}

/* The tag, from the sealed bytes of the rest: its whole pairs at `sealed`, then `pair`. */
INLINE __m128i tag_of(struct run *run, const struct rest *rest, const uint8_t *sealed, __m256i pair)
{
    const __m128i zero = _mm_setzero_si128();
    size_t count = rest->whole / BLOCK + (rest->size + BLOCK - 1) / BLOCK + 1;
    const __m128i *power = run->key->power + (POWERS - count);
    __m256i before = pair_of(run->hash, zero);
    struct product sum;
    clear(&sum);
    for (size_t at = 0; at < rest->whole; at += PAIR, power += 2) {
        add_product(&sum, _mm256_xor_si256(reverse_pair(load(sealed + at)), before),
                    load_powers(power));
        before = _mm256_setzero_si256();
    }
    pair = reverse_pair(pair);
    if (rest->size > BLOCK) {
        add_product(&sum, _mm256_xor_si256(pair, before), load_powers(power));
        before = _mm256_setzero_si256();
        power += 2;
    }
    __m128i lengths = _mm_set_epi64x((long long)run->aad_size * 8, (long long)run->size * 8);
    pair = rest->size == 0 || rest->size > BLOCK ? pair_of(lengths, zero)
                                                 : pair_of(_mm256_castsi256_si128(pair), lengths);
    add_product(&sum, _mm256_xor_si256(pair, before), load_powers(power));
    return _mm_xor_si128(reverse(reduce(&sum)), run->first);
}

WIDE static bool vaes_seal(struct aead_key *key, const uint8_t nonce[AEAD_NONCE_SIZE],
                           const uint8_t *aad, size_t aad_size, const uint8_t *plain, size_t size,
                           uint8_t *sealed)
{
    struct run run;
    struct rest rest;
    __m256i stream[PAIRS];
    if (size > INT_MAX) /* far below where the counter would wrap */
        return false;
    begin(&run, key, nonce, aad, aad_size, size);
    make_stream(&run, stream);
    for (size_t left = size; left >= GROUP; left -= GROUP) {
        apply(key, stream, plain, sealed);
        make_stream_and_hash(&run, stream, sealed);
        plain += GROUP;
        sealed += GROUP;
    }
    begin_rest(&run, &rest, stream);
    __m256i last = load_rest(&rest, plain);
    apply_whole(&rest, plain, sealed);
    last = apply_rest(&rest, last, sealed);
    __m128i tag = tag_of(&run, &rest, sealed, last);
    _mm_storeu_si128((__m128i *)(void *)(sealed + size % GROUP), tag);
    return true;
}

WIDE static bool vaes_open(struct aead_key *key, const uint8_t nonce[AEAD_NONCE_SIZE],
                           const uint8_t *aad, size_t aad_size, const uint8_t *sealed, size_t size,
                           uint8_t *plain)
{
    struct run run;
    struct rest rest;
    __m256i stream[PAIRS];
    uint8_t expected[AEAD_TAG_SIZE], tag[AEAD_TAG_SIZE];
    if (size < AEAD_TAG_SIZE || size > INT_MAX)
        return false;
    size -= AEAD_TAG_SIZE;
    memcpy(expected, sealed + size, AEAD_TAG_SIZE);
    begin(&run, key, nonce, aad, aad_size, size);
    for (size_t left = size; left >= GROUP; left -= GROUP) {
        make_stream_and_hash(&run, stream, sealed);
        apply(key, stream, sealed, plain);
        plain += GROUP;
        sealed += GROUP;
    }
    make_stream(&run, stream);
    begin_rest(&run, &rest, stream);
    __m256i last = load_rest(&rest, sealed);
    __m128i made = tag_of(&run, &rest, sealed, last);
    apply_whole(&rest, sealed, plain);
    apply_rest(&rest, last, plain);
    _mm_storeu_si128((__m128i *)(void *)tag, made);
    return CRYPTO_memcmp(tag, expected, AEAD_TAG_SIZE) == 0;
}

/* ---- keys ---- */

/* AVX2 includes that the system saves wide registers. Not all compilers know the names of the
 * others. */
static bool vaes_available(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (c & CPUID_VAES) != 0 && (c & CPUID_VPCLMULQDQ) != 0;
}

static struct aead_key *vaes_key_new(const uint8_t bytes[AEAD_KEY_SIZE], struct error *error)
{
    if (!vaes_available()) {
        error_set(error, ERROR_CRYPTO, "this processor has no VAES instructions");
        return NULL;
    }
    struct aead_key *key = aligned_alloc(_Alignof(struct aead_key), sizeof *key);
    if (key == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a packet key");
        return NULL;
    }
    expand_key(key, bytes);
    make_powers(key);
    return key;
}

static void vaes_key_free(struct aead_key *key)
{
    if (key == NULL)
        return;
    wipe(key, sizeof *key);
    free(key);
}

const struct aead_provider aead_vaes_aes = {
    .name = "vaes",
    .suite = AEAD_AES_256_GCM,
    .available = vaes_available,
    .key_new = vaes_key_new,
    .seal = vaes_seal,
    .open = vaes_open,
    .key_free = vaes_key_free,
};
