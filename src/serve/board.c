#include "serve/board.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_SIZE 65536u /* at least the system's, anywhere */

/* Numbers are atomic by themselves, the rest is guarded by `edits`: odd while it changes. */
struct page {
    _Atomic uint64_t limit_bps;
    _Atomic uint32_t paused;
    _Atomic uint32_t direction;
    _Atomic uint64_t bytes_done, bytes_total, files_done, files_failed, rate_bps, memory_bytes;
    _Atomic uint32_t not_refused; /* refusal's complement, so that an empty page is not refused */
    _Atomic uint32_t edits;
    struct guarded {
        bool is_admitted;
        struct board_guest guest;
        char path[BOARD_TEXT_MAX];
    } guarded;
};

_Static_assert(sizeof(struct page) <= PAGE_SIZE, "one page a seat");

struct board {
    uint8_t *pages;
    unsigned seats;
    struct board_client *clients; /* job 0: nobody */
};

static struct page *page_of(const struct board *board, unsigned seat)
{
    return (struct page *)(void *)(board->pages + (size_t)seat * PAGE_SIZE);
}

struct board *board_new(unsigned seats, struct error *error)
{
    if (seats == 0 || seats > BOARD_SEATS_MAX) {
        error_set(error, ERROR_USAGE, "a server has 1 to %u clients", BOARD_SEATS_MAX);
        return NULL;
    }
    struct board *board = calloc(1, sizeof(*board));
    struct board_client *clients = calloc(seats, sizeof(*clients));
    void *pages = mmap(NULL, (size_t)seats * PAGE_SIZE, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == NULL || clients == NULL || pages == MAP_FAILED) {
        error_set(error, ERROR_MEMORY, "no memory for %u clients", seats);
        if (pages != MAP_FAILED)
            munmap(pages, (size_t)seats * PAGE_SIZE);
        free(clients);
        free(board);
        return NULL;
    }
    *board = (struct board){.pages = pages, .seats = seats, .clients = clients};
    return board;
}

void board_free(struct board *board)
{
    if (board == NULL)
        return;
    munmap(board->pages, (size_t)board->seats * PAGE_SIZE);
    free(board->clients);
    free(board);
}

unsigned board_seats(const struct board *board)
{
    return board->seats;
}

/* ---- the server ---- */

void board_take(struct board *board, unsigned seat, const struct board_client *client)
{
    memset(page_of(board, seat), 0, sizeof(struct page));
    board->clients[seat] = *client;
}

void board_leave(struct board *board, unsigned seat)
{
    board->clients[seat] = (struct board_client){0};
}

const struct board_client *board_client(const struct board *board, unsigned seat)
{
    return board->clients[seat].job != 0 ? &board->clients[seat] : NULL;
}

/* Of a session that keeps changing it nothing is shown. What it holds may be anything. */
static void read_guarded(const struct page *page, struct guarded *guarded)
{
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        uint32_t before = atomic_load_explicit(&page->edits, memory_order_acquire);
        memcpy(guarded, &page->guarded, sizeof(*guarded));
        guarded->path[BOARD_TEXT_MAX - 1] = '\0';
        guarded->guest.who[BOARD_TEXT_MAX - 1] = '\0';
        atomic_thread_fence(memory_order_acquire);
        if (before % 2 == 0 && before == atomic_load_explicit(&page->edits, memory_order_relaxed))
            return;
    }
    *guarded = (struct guarded){0};
}

bool board_guest(const struct board *board, unsigned seat, struct board_guest *guest)
{
    struct guarded guarded;
    if (board_client(board, seat) == NULL)
        return false;
    read_guarded(page_of(board, seat), &guarded);
    *guest = guarded.guest;
    return guarded.is_admitted;
}

void board_read(const struct board *board, unsigned seat, struct board_report *report)
{
    const struct page *page = page_of(board, seat);
    uint32_t direction = atomic_load(&page->direction);
    *report = (struct board_report){
        .direction = direction <= BOARD_JOB ? (enum board_direction)direction : BOARD_UNKNOWN,
        .bytes_done = atomic_load(&page->bytes_done),
        .bytes_total = atomic_load(&page->bytes_total),
        .files_done = atomic_load(&page->files_done),
        .files_failed = atomic_load(&page->files_failed),
        .rate_bps = atomic_load(&page->rate_bps),
        .memory_bytes = atomic_load(&page->memory_bytes),
        .refusal = ~atomic_load(&page->not_refused),
    };
    struct guarded guarded;
    read_guarded(page, &guarded);
    memcpy(report->path, guarded.path, sizeof(report->path));
}

static uint64_t smaller_limit(uint64_t a, uint64_t b)
{
    if (a == 0 || b == 0)
        return a | b;
    return a < b ? a : b;
}

static uint64_t part(uint64_t limit_bps, unsigned among)
{
    uint64_t share = limit_bps / among;
    return limit_bps != 0 && share == 0 ? 1 : share;
}

/* Of the sessions with a guest; of those with this key where there is one. */
static unsigned count_guests(const struct board *board, const uint8_t *key)
{
    unsigned count = 0;
    for (unsigned seat = 0; seat < board->seats; seat++) {
        struct board_guest other;
        count += board_guest(board, seat, &other) &&
                 (key == NULL || memcmp(other.key, key, KEY_SIZE) == 0);
    }
    return count;
}

void board_share_out(struct board *board, uint64_t limit_bps, bool paused)
{
    unsigned all = count_guests(board, NULL);
    for (unsigned seat = 0; seat < board->seats; seat++) {
        struct board_guest guest;
        if (board_client(board, seat) == NULL)
            continue;
        uint64_t own = 0;
        bool is_counted = board_guest(board, seat, &guest);
        if (is_counted && guest.limit_bps != 0)
            own = part(guest.limit_bps, count_guests(board, guest.key));
        struct page *page = page_of(board, seat);
        atomic_store(&page->limit_bps, smaller_limit(own, part(limit_bps, all + !is_counted)));
        atomic_store(&page->paused, paused ? 1u : 0u);
    }
}

/* ---- a session ---- */

void board_keep_only(struct board *board, unsigned seat)
{
    size_t before = (size_t)seat * PAGE_SIZE, after = (size_t)(seat + 1) * PAGE_SIZE;
    size_t all = (size_t)board->seats * PAGE_SIZE;
    if (before > 0)
        munmap(board->pages, before);
    if (after < all)
        munmap(board->pages + after, all - after);
    for (unsigned other = 0; other < board->seats; other++) {
        if (other != seat)
            board_leave(board, other);
    }
}

void board_admit(struct board *board, unsigned seat, const struct board_guest *guest)
{
    struct page *page = page_of(board, seat);
    atomic_fetch_add(&page->edits, 1);
    page->guarded.guest = *guest;
    page->guarded.is_admitted = true;
    atomic_fetch_add(&page->edits, 1);
}

static void write_path(struct page *page, const char *path)
{
    if (strncmp(page->guarded.path, path, BOARD_TEXT_MAX) == 0)
        return;
    atomic_fetch_add(&page->edits, 1);
    snprintf(page->guarded.path, sizeof(page->guarded.path), "%s", path);
    atomic_fetch_add(&page->edits, 1);
}

void board_report(struct board *board, unsigned seat, const struct board_report *report)
{
    struct page *page = page_of(board, seat);
    write_path(page, report->path);
    atomic_store(&page->direction, (uint32_t)report->direction);
    atomic_store(&page->bytes_done, report->bytes_done);
    atomic_store(&page->bytes_total, report->bytes_total);
    atomic_store(&page->files_done, report->files_done);
    atomic_store(&page->files_failed, report->files_failed);
    atomic_store(&page->rate_bps, report->rate_bps);
    atomic_store(&page->memory_bytes, report->memory_bytes);
    atomic_store(&page->not_refused, ~report->refusal);
}

uint64_t board_limit(const struct board *board, unsigned seat)
{
    return atomic_load(&page_of(board, seat)->limit_bps);
}

bool board_is_paused(const struct board *board, unsigned seat)
{
    return atomic_load(&page_of(board, seat)->paused) != 0;
}
