/* catalogue.c - a row a picture, the pictures of a prompt in a chain; see catalogue.h.
 *
 * What many pictures share (batch, size, LoRAs, ...) is a kind, and a row has the number of one: a
 * filter looks at each kind once.  A removed picture keeps its row: it may come back, with the
 * restore of a backup for instance.
 */
#include "scheduler/gallery/meaning/catalogue.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gallery/meaning/digests.h"
#include "scheduler/policy/slots.h" /* kiln_hash_u64 */
#include "scheduler/sim/intern.h"
#include "schemas/places.h"
#include "schemas/room.h"

#define FIRST_ROWS 1024
#define LORA_SEPARATOR ' '

/* Its bytes are the key of a table, so it has no padding. */
struct kind {
    uint32_t batch, tenant, model, style, loras; /* names; KILN_NONE: none */
    uint16_t width, height;
    uint16_t aspect, mode;
};
_Static_assert(sizeof(struct kind) == 5 * sizeof(uint32_t) + 4 * sizeof(uint16_t), "padding");

struct row {
    uint64_t job __attribute__((packed, aligned(4))); /* or each row had four bytes of padding */
    uint32_t created_s; /* seconds since 1970, until 2106 */
    uint32_t prompt;
    uint32_t next; /* another picture of the prompt, or KILN_NONE */
    uint32_t kind;
    int8_t level, vote;
    bool starred, gone;
};
_Static_assert(sizeof(struct row) == 28, "a million of them");

struct kiln_catalogue {
    pthread_rwlock_t lock;
    struct kiln_digests prompts;
    struct kiln_intern names, kinds;
    struct kiln_places by_job;
    struct row *rows;
    size_t rows_room;
    uint32_t *first; /* of the chain of a prompt */
    uint32_t row_count, first_room, gone;
    uint64_t changes; /* of pictures that were here before */
};

/* A filter with its names as numbers. */
struct passing {
    const struct kiln_gallery_filter *filter;
    uint32_t batch, tenant, model, style, prompt;
    bool nothing;   /* a name that no picture has */
    uint8_t *kinds; /* by their numbers: 0 not looked at, 1 none of them passes, 2 they may */
};

int kiln_catalogue_new(struct kiln_catalogue **ret, struct kiln_error *err)
{
    struct kiln_catalogue *c = calloc(1, sizeof *c);
    if (!c)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the pictures of the gallery");
    pthread_rwlock_init(&c->lock, NULL);
    *ret = c;
    return 0;
}

void kiln_catalogue_free(struct kiln_catalogue *c)
{
    if (!c)
        return;
    pthread_rwlock_destroy(&c->lock);
    kiln_digests_release(&c->prompts);
    kiln_intern_release(&c->names), kiln_intern_release(&c->kinds);
    kiln_places_release(&c->by_job);
    free(c->rows), free(c->first);
    free(c);
}

/* --- rows ----------------------------------------------------------------------------------- */
static uint32_t find(const struct kiln_catalogue *c, uint64_t job)
{
    uint32_t place = kiln_hash_u64(job), row;
    while ((row = kiln_places_look(&c->by_job, &place)) != KILN_PLACES_NONE)
        if (c->rows[row].job == job)
            break;
    return row;
}

static bool hash_at(const void *things, uint32_t row, uint32_t *ret)
{
    const struct kiln_catalogue *c = things;
    *ret = kiln_hash_u64(c->rows[row].job);
    return true;
}

static bool grow(struct kiln_catalogue *c)
{
    struct row *rows = kiln_room(c->rows, c->row_count, &c->rows_room, sizeof *rows);
    if (!rows)
        return false;
    c->rows = rows;
    return kiln_places_fit(&c->by_job, c, c->row_count, hash_at);
}

static bool grow_prompts(struct kiln_catalogue *c)
{
    const uint32_t room = c->first_room ? 2 * c->first_room : FIRST_ROWS;
    uint32_t *first = realloc(c->first, room * sizeof *first);
    if (!first)
        return false;
    c->first = first;
    c->first_room = room;
    return true;
}

static bool name(struct kiln_catalogue *c, const char *text, uint32_t *ret)
{
    *ret = text && *text ? kiln_intern(&c->names, text, strlen(text)) : KILN_NONE;
    return *ret != KILN_NONE || !text || !*text;
}

static enum kiln_gallery_aspect aspect_of(uint32_t width, uint32_t height)
{
    if (width * 20 > height * 21)
        return KILN_GALLERY_WIDE;
    return width * 20 < height * 19 ? KILN_GALLERY_TALL : KILN_GALLERY_SQUARE;
}

/* The prompt's number, with an empty chain if it is new. */
static bool take_prompt(struct kiln_catalogue *c, const char *hash, uint32_t *ret)
{
    const uint32_t known = c->prompts.count;
    if (known == c->first_room && !grow_prompts(c))
        return false;
    *ret = kiln_digests_put(&c->prompts, hash);
    if (*ret == known)
        c->first[known] = KILN_NONE;
    return *ret != KILN_NONE;
}

static void unchain(struct kiln_catalogue *c, uint32_t row)
{
    uint32_t *link = &c->first[c->rows[row].prompt];
    while (*link != row)
        link = &c->rows[*link].next;
    *link = c->rows[row].next;
}

static bool take_kind(struct kiln_catalogue *c, const struct kiln_prompt_picture *p, uint32_t *ret)
{
    struct kind kind = {.width = (uint16_t)p->width,
                        .height = (uint16_t)p->height,
                        .aspect = (uint16_t)aspect_of(p->width, p->height),
                        .mode = (uint16_t)p->mode};
    if (!name(c, p->batch, &kind.batch) || !name(c, p->tenant, &kind.tenant) ||
        !name(c, p->model, &kind.model) || !name(c, p->style, &kind.style) ||
        !name(c, p->loras, &kind.loras))
        return false;
    *ret = kiln_intern(&c->kinds, &kind, sizeof kind);
    return *ret != KILN_NONE;
}

static bool put(struct kiln_catalogue *c, const struct kiln_prompt_picture *p, uint32_t *ret_prompt)
{
    struct row row = {.job = p->job,
                      .created_s = (uint32_t)(p->created_ms / 1000),
                      .level = (int8_t)p->level,
                      .starred = p->starred,
                      .vote = (int8_t)p->vote};
    if (!take_prompt(c, p->prompt_hash, &row.prompt) || !take_kind(c, p, &row.kind))
        return false;
    uint32_t at = find(c, p->job);
    const bool chained = at != KILN_NONE && c->rows[at].prompt == row.prompt;
    const bool is_old = at != KILN_NONE;
    if (is_old) {
        c->gone -= c->rows[at].gone;
        if (!chained)
            unchain(c, at);
    } else {
        if (!grow(c))
            return false;
        at = c->row_count++;
        kiln_places_add(&c->by_job, kiln_hash_u64(p->job), at);
    }
    row.next = chained ? c->rows[at].next : c->first[row.prompt];
    if (!chained)
        c->first[row.prompt] = at;
    c->changes += is_old && memcmp(&c->rows[at], &row, sizeof row) != 0;
    c->rows[at] = row;
    if (ret_prompt)
        *ret_prompt = row.prompt;
    return true;
}

int kiln_catalogue_put(struct kiln_catalogue *c, const struct kiln_prompt_picture *picture,
                       uint32_t *ret_prompt, struct kiln_error *err)
{
    if (!kiln_digests_valid(picture->prompt_hash))
        return kiln_fail(err, KILN_BAD_INPUT, "job %llu: \"%.80s\" is not the hash of a prompt",
                         (unsigned long long)picture->job, picture->prompt_hash);
    pthread_rwlock_wrlock(&c->lock);
    bool done = put(c, picture, ret_prompt);
    pthread_rwlock_unlock(&c->lock);
    return done ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for more pictures of the gallery");
}

void kiln_catalogue_remove(struct kiln_catalogue *c, uint64_t job)
{
    pthread_rwlock_wrlock(&c->lock);
    uint32_t row = find(c, job);
    if (row != KILN_NONE && !c->rows[row].gone) {
        c->rows[row].gone = true;
        c->gone++;
        c->changes++;
    }
    pthread_rwlock_unlock(&c->lock);
}

static uint32_t look_up(const struct kiln_intern *table, const char *text)
{
    return kiln_intern_find(table, text, strlen(text));
}

uint32_t kiln_catalogue_prompt(struct kiln_catalogue *c, const char *prompt_hash)
{
    pthread_rwlock_rdlock(&c->lock);
    uint32_t prompt = kiln_digests_find(&c->prompts, prompt_hash);
    pthread_rwlock_unlock(&c->lock);
    return prompt;
}

void kiln_catalogue_hash(struct kiln_catalogue *c, uint32_t prompt, char ret[65])
{
    pthread_rwlock_rdlock(&c->lock);
    kiln_digests_hex(&c->prompts, prompt, ret);
    pthread_rwlock_unlock(&c->lock);
}

uint32_t kiln_catalogue_prompt_of(struct kiln_catalogue *c, uint64_t job)
{
    pthread_rwlock_rdlock(&c->lock);
    uint32_t row = find(c, job);
    uint32_t prompt = row == KILN_NONE || c->rows[row].gone ? KILN_NONE : c->rows[row].prompt;
    pthread_rwlock_unlock(&c->lock);
    return prompt;
}

uint32_t kiln_catalogue_count(struct kiln_catalogue *c, uint32_t *ret_prompts)
{
    pthread_rwlock_rdlock(&c->lock);
    uint32_t count = c->row_count - c->gone;
    if (ret_prompts)
        *ret_prompts = c->prompts.count;
    pthread_rwlock_unlock(&c->lock);
    return count;
}

/* --- filters -------------------------------------------------------------------------------- */
static void want(const struct kiln_catalogue *c, struct passing *passing, const char *text,
                 uint32_t *ret)
{
    *ret = text ? look_up(&c->names, text) : KILN_NONE;
    passing->nothing |= text && *ret == KILN_NONE;
}

/* Without memory for the kinds nothing passes: a filter never shows more than it should. */
static struct passing compile(const struct kiln_catalogue *c,
                              const struct kiln_gallery_filter *filter)
{
    struct passing passing = {.filter = filter};
    want(c, &passing, filter->batch, &passing.batch);
    want(c, &passing, filter->tenant, &passing.tenant);
    want(c, &passing, filter->model, &passing.model);
    want(c, &passing, filter->style, &passing.style);
    passing.prompt =
        filter->prompt_hash ? kiln_digests_find(&c->prompts, filter->prompt_hash) : KILN_NONE;
    passing.nothing |= filter->prompt_hash && passing.prompt == KILN_NONE;
    passing.kinds = calloc(c->kinds.count + 1u, 1);
    passing.nothing |= !passing.kinds;
    return passing;
}

static bool contains(const char *names, const char *wanted)
{
    const size_t len = strlen(wanted);
    for (const char *at = names; (at = strstr(at, wanted)); at += len)
        if ((at == names || at[-1] == LORA_SEPARATOR) && (!at[len] || at[len] == LORA_SEPARATOR))
            return true;
    return false;
}

static bool kind_passes(const struct kiln_catalogue *c, const struct passing *passing,
                        uint32_t number)
{
    const struct kiln_gallery_filter *f = passing->filter;
    struct kind kind;
    memcpy(&kind, kiln_intern_text(&c->kinds, number), sizeof kind); /* it has no alignment there */
    return (!f->batch || kind.batch == passing->batch) &&
           (!f->tenant || kind.tenant == passing->tenant) &&
           (!f->model || kind.model == passing->model) &&
           (!f->style || kind.style == passing->style) &&
           (!f->width || (kind.width == f->width && kind.height == f->height)) &&
           (!f->aspect || kind.aspect == (int)f->aspect) &&
           (!f->mode || kind.mode == (int)f->mode) &&
           (!f->lora || (kind.loras != KILN_NONE &&
                         contains(kiln_intern_text(&c->names, kind.loras), f->lora)));
}

static bool passes(const struct kiln_catalogue *c, const struct passing *passing,
                   const struct row *row)
{
    const struct kiln_gallery_filter *f = passing->filter;
    const int64_t made = row->created_s;
    uint8_t *kind = &passing->kinds[row->kind];
    if (row->gone || row->level > f->level_max ||
        (row->level == KILN_SAFETY_UNCHECKED && !f->show_unchecked))
        return false;
    if (*kind == 0)
        *kind = kind_passes(c, passing, row->kind) ? 2 : 1;
    return *kind == 2 && (!f->prompt_hash || row->prompt == passing->prompt) &&
           (!f->starred || row->starred) && (!f->vote || row->vote == f->vote) &&
           (!f->from_ms || made >= f->from_ms / 1000) && (!f->to_ms || made < f->to_ms / 1000);
}

uint32_t kiln_catalogue_mask(struct kiln_catalogue *c, const struct kiln_gallery_filter *filter,
                             const uint32_t *places, uint32_t prompts, uint64_t *mask,
                             uint32_t bits, struct kiln_catalogue_seen *seen)
{
    uint32_t count = 0;
    pthread_rwlock_rdlock(&c->lock);
    struct passing passing = compile(c, filter);
    const uint32_t from = seen && seen->changes == c->changes ? seen->pictures : 0;
    if (seen && from == 0)
        memset(mask, 0, (bits / 64 + 1) * sizeof *mask);
    if (seen)
        *seen = (struct kiln_catalogue_seen){c->row_count, c->changes};
    for (uint32_t i = from; i < c->row_count && !passing.nothing; i++) {
        const struct row *row = &c->rows[i];
        if (!passes(c, &passing, row))
            continue;
        count++;
        uint32_t place = row->prompt < prompts ? places[row->prompt] : KILN_NONE;
        if (place < bits)
            mask[place / 64] |= UINT64_C(1) << (place % 64);
    }
    free(passing.kinds);
    pthread_rwlock_unlock(&c->lock);
    return count;
}

void kiln_catalogue_newest(struct kiln_catalogue *c, const struct kiln_gallery_filter *filter,
                           const uint32_t *prompts, uint32_t count, uint64_t *ret_jobs)
{
    pthread_rwlock_rdlock(&c->lock);
    struct passing passing = compile(c, filter);
    for (uint32_t i = 0; i < count; i++) {
        ret_jobs[i] = 0;
        uint32_t at =
            passing.nothing || prompts[i] >= c->prompts.count ? KILN_NONE : c->first[prompts[i]];
        for (; at != KILN_NONE; at = c->rows[at].next)
            if (c->rows[at].job > ret_jobs[i] && passes(c, &passing, &c->rows[at]))
                ret_jobs[i] = c->rows[at].job;
    }
    free(passing.kinds);
    pthread_rwlock_unlock(&c->lock);
}
