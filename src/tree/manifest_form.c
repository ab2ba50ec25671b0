#include "tree/manifest_form.h"

#include <stdio.h>
#include <string.h>

#include "tree/pack.h"

/* ---- writing ---- */

static bool needs_escape(const char *text, size_t size)
{
    return memchr(text, '\\', size) != NULL || memchr(text, '\n', size) != NULL;
}

/* A line of a head and a text; returns its length. */
static size_t put_line(char *out, const char *head, const char *text, size_t size)
{
    char *at = out;
    bool escape = needs_escape(text, size);
    if (escape)
        *at++ = '\\';
    size_t head_size = strlen(head);
    memcpy(at, head, head_size);
    at += head_size;
    for (size_t i = 0; i < size; i++) {
        bool special = escape && (text[i] == '\\' || text[i] == '\n');
        if (special)
            *at++ = '\\';
        *at++ = special && text[i] == '\n' ? 'n' : text[i];
    }
    *at++ = '\n';
    return (size_t)(at - out);
}

static size_t put_hash(char *out, const struct manifest_entry *entry)
{
    char head[72];
    for (unsigned i = 0; i < sizeof entry->hash; i++)
        snprintf(head + 2 * i, 3, "%02x", entry->hash[i]);
    strcpy(head + 2 * sizeof entry->hash, "  ");
    return put_line(out, head, entry->path, entry->path_size);
}

size_t manifest_write(const struct manifest_entry *entry, char *text)
{
    char head[96], when[40];
    snprintf(when, sizeof when, "%lld.%09u", (long long)entry->mtime_s, (unsigned)entry->mtime_ns);
    if (entry->kind == MANIFEST_LINK)
        snprintf(head, sizeof head, "l %s ", when);
    else if (entry->kind == MANIFEST_DIRECTORY)
        snprintf(head, sizeof head, "d %04o %s ", (unsigned)entry->mode & 07777, when);
    else
        snprintf(head, sizeof head, "f %04o %s %llu ", (unsigned)entry->mode & 07777, when,
                 (unsigned long long)entry->size);
    size_t size = put_line(text, head, entry->path, entry->path_size);
    if (entry->kind == MANIFEST_LINK)
        size += put_line(text + size, "> ", entry->target, entry->target_size);
    if (entry->kind == MANIFEST_FILE)
        size += put_hash(text + size, entry);
    return size;
}

/* ---- reading ---- */

struct line {
    const char *at, *end;
    bool escaped;
};

static bool skip(struct line *line, char wanted)
{
    if (line->at == line->end || *line->at != wanted)
        return false;
    line->at++;
    return true;
}

/* Digits of a base, at least one and at most `most`; no sign, and leading zeros only where the
 * width is fixed. */
static bool take_number(struct line *line, unsigned base, size_t least, size_t most,
                        uint64_t *value)
{
    size_t count = 0;
    *value = 0;
    for (; line->at < line->end && count < most; count++, line->at++) {
        unsigned digit = (unsigned)(*line->at - '0');
        if (*line->at < '0' || digit >= base)
            break;
        if (*value > (UINT64_MAX - digit) / base)
            return false;
        *value = *value * base + digit;
    }
    bool padded = count > 1 && least != most && line->at[-(ptrdiff_t)count] == '0';
    return count >= least && !padded;
}

static bool take_time(struct line *line, struct manifest_entry *entry)
{
    bool negative = skip(line, '-');
    uint64_t seconds, nanoseconds;
    if (!take_number(line, 10, 1, 19, &seconds) || seconds > INT64_MAX || !skip(line, '.') ||
        !take_number(line, 10, 9, 9, &nanoseconds) || (negative && seconds == 0))
        return false;
    entry->mtime_s = negative ? -(int64_t)seconds : (int64_t)seconds;
    entry->mtime_ns = (uint32_t)nanoseconds;
    return skip(line, ' ');
}

/* The rest of the line is a text; writes it to `text`, ended by NUL. */
static bool take_text(struct line *line, char *text, size_t *size)
{
    bool special = false;
    *size = 0;
    for (; line->at < line->end; line->at++) {
        char byte = *line->at;
        if (line->escaped && byte == '\\') {
            if (++line->at == line->end || (*line->at != '\\' && *line->at != 'n'))
                return false;
            byte = *line->at == 'n' ? '\n' : '\\';
            special = true;
        } else if (byte == '\\' || byte == '\0' || byte == '\n') {
            return false;
        }
        if (*size == MANIFEST_PATH_MAX)
            return false;
        text[(*size)++] = byte;
    }
    text[*size] = '\0';
    return *size > 0 && special == line->escaped; /* one form only for each text */
}

static bool take_hash(struct line *line, uint8_t hash[32])
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < 64; i++) {
        const char *digit =
            line->at < line->end && *line->at != '\0' ? strchr(digits, *line->at) : NULL;
        if (digit == NULL)
            return false;
        unsigned value = (unsigned)(digit - digits);
        hash[i / 2] = (uint8_t)(i % 2 == 0 ? value << 4 : hash[i / 2] | value);
        line->at++;
    }
    return skip(line, ' ') && skip(line, ' ');
}

static bool invalid(const struct manifest_reader *reader, struct error *error, const char *what)
{
    return error_set(error, ERROR_USAGE, "line %llu of the manifest %s",
                     (unsigned long long)reader->line, what);
}

static bool path_is_valid(const char *path, size_t size)
{
    /* Two paths long, for a top-level name may stand before one. */
    return size <= PACK_PATH_MAX ? pack_path_valid(path, size)
                                 : memchr(path, '\0', size) == NULL && path[0] != '/';
}

static bool take_head(struct manifest_reader *reader, struct line *line, struct error *error)
{
    struct manifest_entry *entry = &reader->entry;
    uint64_t mode = 0;
    *entry = (struct manifest_entry){.path = reader->path};
    char kind = line->at < line->end ? *line->at++ : '\0';
    if ((kind != 'd' && kind != 'f' && kind != 'l') || !skip(line, ' '))
        return invalid(reader, error, "is of no known kind");
    entry->kind = (enum manifest_kind)kind;
    if (kind != 'l' && (!take_number(line, 8, 4, 4, &mode) || !skip(line, ' ')))
        return invalid(reader, error, "has no proper mode");
    entry->mode = (uint32_t)mode;
    if (!take_time(line, entry))
        return invalid(reader, error, "has no proper time");
    if (kind == 'f' && (!take_number(line, 10, 1, 20, &entry->size) || !skip(line, ' ')))
        return invalid(reader, error, "has no proper size");
    if (!take_text(line, reader->path, &entry->path_size) ||
        !path_is_valid(reader->path, entry->path_size))
        return invalid(reader, error, "has a path that is not allowed");
    if (reader->has_previous && manifest_compare(reader->previous, reader->previous_size,
                                                 reader->path, entry->path_size) >= 0)
        return invalid(reader, error, "is out of order, or comes twice");
    memcpy(reader->previous, reader->path, entry->path_size);
    reader->previous_size = entry->path_size;
    reader->has_previous = true;
    return true;
}

static bool take_second(struct manifest_reader *reader, struct line *line, struct error *error)
{
    struct manifest_entry *entry = &reader->entry;
    size_t size = 0;
    if (entry->kind == MANIFEST_FILE) {
        if (!take_hash(line, entry->hash) || !take_text(line, reader->other, &size) ||
            size != entry->path_size || memcmp(reader->other, reader->path, size) != 0)
            return invalid(reader, error, "is not the hash of the file before it");
        return true;
    }
    if (!skip(line, '>') || !skip(line, ' ') || !take_text(line, reader->other, &size))
        return invalid(reader, error, "is not what the link before it leads to");
    entry->target = reader->other;
    entry->target_size = size;
    return true;
}

enum manifest_result manifest_read(struct manifest_reader *reader, const char *bytes, size_t size,
                                   struct error *error)
{
    struct line line = {.at = bytes, .end = bytes + size};
    reader->line++;
    if (!reader->begun) {
        reader->begun =
            size == strlen(MANIFEST_FIRST_LINE) && memcmp(bytes, MANIFEST_FIRST_LINE, size) == 0;
        if (!reader->begun)
            error_set(
                error, ERROR_USAGE,
                "this is no manifest of petrel's: its first line is not " MANIFEST_FIRST_LINE);
        return reader->begun ? MANIFEST_MORE : MANIFEST_INVALID;
    }
    line.escaped = skip(&line, '\\');
    if (reader->second) {
        reader->second = false;
        return take_second(reader, &line, error) ? MANIFEST_ENTRY : MANIFEST_INVALID;
    }
    if (!take_head(reader, &line, error))
        return MANIFEST_INVALID;
    reader->second = reader->entry.kind != MANIFEST_DIRECTORY;
    return reader->second ? MANIFEST_MORE : MANIFEST_ENTRY;
}

bool manifest_read_end(const struct manifest_reader *reader, struct error *error)
{
    if (!reader->begun)
        return error_set(error, ERROR_USAGE, "the manifest is empty");
    return !reader->second || error_set(error, ERROR_USAGE, "the manifest ends in mid-entry");
}

int manifest_compare(const char *a, size_t a_size, const char *b, size_t b_size)
{
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order != 0 ? order : a_size < b_size ? -1 : a_size > b_size;
}
