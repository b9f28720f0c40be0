/* meaning.c - the pictures and vectors in memory, and searches of them; see meaning.h.
 *
 * What a search reads is a world: catalogue, index, and which row of the index is which prompt's.
 * Searches hold a read lock for as long as they run; the keeper changes a world in short steps
 * under the write lock, and replaces it as a whole after a load.
 */
#include "scheduler/gallery/meaning/meaning.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/index/code.h"
#include "pipeline/embed/index/index.h"
#include "scheduler/gallery/meaning/catalogue.h"
#include "schemas/room.h"
#include "storage/ledger/gallery/prompts.h"

#define EMBED_MAX 64                /* prompts of one step */
#define NO_EVIDENCE (KILN_NONE - 1) /* in `places`: the prompt has no vector and never will */
#define SPREADS 3                   /* above the usual score: what is alike */

_Static_assert(KILN_PROMPT_SKETCH_WORDS == KILN_SKETCH_WORDS, "the ledger keeps whole sketches");

struct world {
    struct kiln_catalogue *catalogue;
    struct kiln_vector_index *index;
    uint32_t *places;  /* of prompt p: its row in the index, KILN_NONE before it has a vector */
    uint32_t *prompts; /* of row r of the index */
    size_t places_room, prompts_room;
    uint32_t prompt_count; /* places that are filled in */
    uint32_t waiting;      /* prompts from here on may lack a vector */
};

struct kiln_meaning {
    const char *pool;
    const struct kiln_embedder *embedder;
    struct kiln_vector_coder *coder;
    size_t dims;
    pthread_rwlock_t lock; /* of the world */
    struct world *world;
    uint64_t *notes; /* [KILN_MEANING_NOTES_MAX]: jobs that changed; the keeper's */
    bool *notes_gone;
    uint32_t note_count;
};

struct kiln_meaning_scratch {
    struct kiln_vector_search *search;
    uint64_t *mask;
    size_t mask_words;
    float *vector;
    int8_t *query;
    struct kiln_vector_hit hits[KILN_MEANING_HITS_MAX];
    uint32_t prompts[KILN_MEANING_HITS_MAX];
    uint64_t jobs[KILN_MEANING_HITS_MAX];
};

static void world_free(struct world *world)
{
    if (!world)
        return;
    kiln_catalogue_free(world->catalogue);
    kiln_vector_index_free(world->index);
    free(world->places), free(world->prompts);
    free(world);
}

static int world_new(size_t dims, struct world **ret, struct kiln_error *err)
{
    struct world *world = calloc(1, sizeof *world);
    if (!world)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the gallery's prompts");
    int code = kiln_catalogue_new(&world->catalogue, err);
    if (code == 0)
        code = kiln_vector_index_new((int64_t)dims, &world->index, err);
    if (code != 0) {
        world_free(world);
        return code;
    }
    *ret = world;
    return 0;
}

int kiln_meaning_open(const char *pool, const struct kiln_embedder *embedder,
                      struct kiln_meaning **ret, struct kiln_error *err)
{
    struct kiln_meaning *m = calloc(1, sizeof *m);
    if (!m)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a search by meaning");
    m->pool = pool, m->embedder = embedder;
    m->dims = kiln_embedder_info(embedder)->dims;
    pthread_rwlock_init(&m->lock, NULL);
    m->notes = malloc(KILN_MEANING_NOTES_MAX * sizeof *m->notes);
    m->notes_gone = malloc(KILN_MEANING_NOTES_MAX * sizeof *m->notes_gone);
    int code = m->notes && m->notes_gone
                   ? kiln_vector_coder_new((int64_t)m->dims, NULL, &m->coder, err)
                   : kiln_fail(err, KILN_NO_MEMORY, "no memory for a search by meaning");
    if (code == 0)
        code = world_new(m->dims, &m->world, err);
    if (code != 0) {
        kiln_meaning_close(m);
        return code;
    }
    *ret = m;
    return 0;
}

void kiln_meaning_close(struct kiln_meaning *m)
{
    if (!m)
        return;
    world_free(m->world);
    kiln_vector_coder_free(m->coder);
    pthread_rwlock_destroy(&m->lock);
    free(m->notes), free(m->notes_gone);
    free(m);
}

/* --- changing a world ----------------------------------------------------------------------- */
static int no_memory(struct kiln_error *err)
{
    return kiln_fail(err, KILN_NO_MEMORY, "no memory for more prompts of the gallery");
}

static int put_picture(struct world *world, const struct kiln_prompt_picture *p,
                       struct kiln_error *err)
{
    const struct kiln_catalogue_picture picture = {.job = p->job,
                                                   .created_ms = p->created_ms,
                                                   .prompt_hash = p->prompt_hash,
                                                   .batch = p->batch,
                                                   .tenant = p->tenant,
                                                   .model = p->model,
                                                   .style = p->style,
                                                   .loras = p->loras,
                                                   .width = p->width,
                                                   .height = p->height,
                                                   .mode = (enum kiln_gallery_mode)p->mode,
                                                   .level = p->level,
                                                   .starred = p->starred};
    uint32_t prompt;
    int code = kiln_catalogue_put(world->catalogue, &picture, &prompt, err);
    if (code != 0)
        return code;
    while (world->prompt_count <= prompt) {
        uint32_t *places =
            kiln_room(world->places, world->prompt_count, &world->places_room, sizeof *places);
        if (!places)
            return no_memory(err);
        world->places = places;
        world->places[world->prompt_count++] = KILN_NONE;
    }
    /* One without a vector whose last picture went, and that has one again. */
    if (world->places[prompt] == KILN_NONE && prompt < world->waiting)
        world->waiting = prompt;
    return 0;
}

static int put_vector(struct world *world, uint32_t prompt, const uint8_t *row, float scale,
                      const uint64_t *sketch, struct kiln_error *err)
{
    uint32_t at;
    if (world->places[prompt] != KILN_NONE)
        return 0;
    uint32_t *prompts = kiln_room(world->prompts, kiln_vector_index_count(world->index),
                                  &world->prompts_room, sizeof *prompts);
    if (!prompts)
        return no_memory(err);
    world->prompts = prompts;
    int code = kiln_vector_index_add(world->index, row, scale, sketch, &at, err);
    if (code != 0)
        return code;
    world->prompts[at] = prompt;
    world->places[prompt] = at;
    return 0;
}

static int load_picture(void *arg, const struct kiln_prompt_picture *p, struct kiln_error *err)
{
    return put_picture(arg, p, err);
}

static int load_vector(void *arg, const struct kiln_prompt_vector *v, struct kiln_error *err)
{
    struct world *world = arg;
    uint32_t prompt = kiln_catalogue_prompt(world->catalogue, v->prompt_hash);
    return prompt == KILN_NONE ? 0 : put_vector(world, prompt, v->row, v->scale, v->sketch, err);
}

int kiln_meaning_load(struct kiln_meaning *m, struct kiln_ledger *session, struct kiln_error *err)
{
    struct world *world, *before;
    int code = world_new(m->dims, &world, err);
    if (code != 0)
        return code;
    code = kiln_gallery_prompt_pictures(session, m->pool, load_picture, world, err);
    if (code == 0)
        code = kiln_gallery_vectors(session, kiln_embedder_info(m->embedder)->recipe, m->dims,
                                    load_vector, world, err);
    if (code != 0) {
        world_free(world);
        return code;
    }
    pthread_rwlock_wrlock(&m->lock);
    before = m->world;
    m->world = world;
    pthread_rwlock_unlock(&m->lock);
    world_free(before);
    return 0;
}

int kiln_meaning_note(void *arg, uint64_t job, bool gone, struct kiln_error *err)
{
    struct kiln_meaning *m = arg;
    if (m->note_count == KILN_MEANING_NOTES_MAX)
        return kiln_fail(err, KILN_FULL, "%d changes of the gallery wait for the search by meaning",
                         KILN_MEANING_NOTES_MAX);
    m->notes[m->note_count] = job;
    m->notes_gone[m->note_count++] = gone;
    return 0;
}

static int note_picture(void *arg, const struct kiln_prompt_picture *p, struct kiln_error *err)
{
    struct kiln_meaning *m = arg;
    pthread_rwlock_wrlock(&m->lock);
    int code = put_picture(m->world, p, err);
    pthread_rwlock_unlock(&m->lock);
    return code;
}

/* Those that are gone first: one that came back is read again. */
static int apply_notes(struct kiln_meaning *m, struct kiln_ledger *session, struct kiln_error *err)
{
    if (m->note_count == 0)
        return 0;
    for (uint32_t i = 0; i < m->note_count; i++)
        if (m->notes_gone[i])
            kiln_catalogue_remove(m->world->catalogue, m->notes[i]);
    int code = kiln_gallery_prompt_pictures_of(session, m->pool, m->notes, m->note_count,
                                               note_picture, m, err);
    if (code == 0)
        m->note_count = 0;
    return code;
}

/* --- new vectors ---------------------------------------------------------------------------- */
struct waiting {
    uint32_t prompts[EMBED_MAX];
    uint64_t jobs[EMBED_MAX]; /* a picture of each; 0: there is none now */
    char *texts[EMBED_MAX];
    uint32_t count;
};

/* Prompts without a vector; passes over those that have one. */
static void find_waiting(struct kiln_meaning *m, struct waiting *w)
{
    struct world *world = m->world;
    const struct kiln_gallery_filter all = {.level_max = KILN_SAFETY_LEVELS,
                                            .show_unchecked = true};
    pthread_rwlock_wrlock(&m->lock);
    for (; world->waiting < world->prompt_count && w->count < EMBED_MAX; world->waiting++)
        if (world->places[world->waiting] == KILN_NONE)
            w->prompts[w->count++] = world->waiting;
    pthread_rwlock_unlock(&m->lock);
    kiln_catalogue_newest(world->catalogue, &all, w->prompts, w->count, w->jobs);
}

static int take_prompt(void *arg, uint64_t job, const char *prompt, struct kiln_error *err)
{
    struct waiting *w = arg;
    for (uint32_t i = 0; i < w->count; i++)
        if (w->jobs[i] == job && !w->texts[i] && !(w->texts[i] = strdup(prompt)))
            return no_memory(err);
    return 0;
}

/* Stores vectors[0 .. count) of these prompts, in the ledger, then in memory. */
static int store(struct kiln_meaning *m, struct kiln_ledger *writer, const uint32_t *prompts,
                 const struct kiln_prompt_vector *vectors, uint32_t count, struct kiln_error *err)
{
    int code = kiln_gallery_vectors_put(writer, kiln_embedder_info(m->embedder)->recipe, m->dims,
                                        vectors, count, err);
    pthread_rwlock_wrlock(&m->lock);
    for (uint32_t i = 0; i < count && code == 0; i++) {
        if (vectors[i].scale > 0)
            code = put_vector(m->world, prompts[i], vectors[i].row, vectors[i].scale,
                              vectors[i].sketch, err);
        else
            m->world->places[prompts[i]] = NO_EVIDENCE;
    }
    pthread_rwlock_unlock(&m->lock);
    return code;
}

/* Embeds the texts that were found.  rows: [EMBED_MAX][dims] of floats, bytes likewise. */
static int embed(struct kiln_meaning *m, struct kiln_ledger *writer, const struct waiting *w,
                 float *rows, uint8_t *bytes, struct kiln_error *err)
{
    struct kiln_embed_text texts[EMBED_MAX];
    struct kiln_prompt_vector vectors[EMBED_MAX];
    uint32_t prompts[EMBED_MAX], count = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->texts[i])
            continue;
        texts[count] = (struct kiln_embed_text){w->texts[i], strlen(w->texts[i])};
        prompts[count++] = w->prompts[i];
    }
    int code = count == 0
                   ? 0
                   : kiln_embedder_embed(m->embedder, KILN_EMBED_PASSAGE, texts, count, rows, err);
    for (uint32_t i = 0; i < count && code == 0; i++) {
        struct kiln_prompt_vector *v = &vectors[i];
        kiln_catalogue_hash(m->world->catalogue, prompts[i], v->prompt_hash);
        v->row = bytes + i * m->dims;
        kiln_vector_encode(m->coder, rows + i * m->dims, bytes + i * m->dims, &v->scale, v->sketch);
    }
    return code == 0 && count > 0 ? store(m, writer, prompts, vectors, count, err) : code;
}

/* After a failure. */
static void wait_again(struct kiln_meaning *m, uint32_t from)
{
    pthread_rwlock_wrlock(&m->lock);
    if (from < m->world->waiting)
        m->world->waiting = from;
    pthread_rwlock_unlock(&m->lock);
}

int kiln_meaning_step(struct kiln_meaning *m, struct kiln_ledger *reader,
                      struct kiln_ledger *writer, bool *ret_more, struct kiln_error *err)
{
    struct waiting w = {.count = 0};
    *ret_more = false;
    int code = apply_notes(m, reader, err);
    if (code != 0 || !writer)
        return code;
    const uint32_t from = m->world->waiting;
    find_waiting(m, &w);
    if (w.count == 0)
        return 0;
    float *rows = malloc(EMBED_MAX * m->dims * sizeof *rows);
    uint8_t *bytes = malloc(EMBED_MAX * m->dims);
    code = rows && bytes ? kiln_gallery_prompts_of(reader, w.jobs, w.count, take_prompt, &w, err)
                         : no_memory(err);
    if (code == 0)
        code = embed(m, writer, &w, rows, bytes, err);
    for (uint32_t i = 0; i < w.count; i++)
        free(w.texts[i]);
    free(rows), free(bytes);
    if (code != 0)
        wait_again(m, from);
    *ret_more = code == 0 && m->world->waiting < m->world->prompt_count;
    return code;
}

/* --- searching ------------------------------------------------------------------------------ */
int kiln_meaning_scratch_new(struct kiln_meaning *m, struct kiln_meaning_scratch **ret,
                             struct kiln_error *err)
{
    struct kiln_meaning_scratch *s = calloc(1, sizeof *s);
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a search by meaning");
    s->vector = malloc(m->dims * sizeof *s->vector);
    s->query = malloc(m->dims);
    int code = s->vector && s->query
                   ? kiln_vector_search_new(&s->search, err)
                   : kiln_fail(err, KILN_NO_MEMORY, "no memory for a search by meaning");
    if (code != 0) {
        kiln_meaning_scratch_free(s);
        return code;
    }
    *ret = s;
    return 0;
}

void kiln_meaning_scratch_free(struct kiln_meaning_scratch *s)
{
    if (!s)
        return;
    kiln_vector_search_free(s->search);
    free(s->mask), free(s->vector), free(s->query);
    free(s);
}

/* The rows of the index whose prompts have a picture that passes. */
static int fill_mask(const struct world *world, struct kiln_meaning_scratch *s,
                     const struct kiln_gallery_filter *filter, struct kiln_vector_query *query,
                     struct kiln_error *err)
{
    const uint32_t rows = kiln_vector_index_count(world->index);
    const size_t words = rows / 64 + 1;
    if (words > s->mask_words) {
        uint64_t *mask = realloc(s->mask, words * sizeof *mask);
        if (!mask)
            return no_memory(err);
        s->mask = mask, s->mask_words = words;
    }
    memset(s->mask, 0, words * sizeof *s->mask);
    kiln_catalogue_mask(world->catalogue, filter, world->places, world->prompt_count, s->mask,
                        rows);
    query->mask = s->mask, query->mask_rows = rows;
    return 0;
}

/* The nearest rows as pictures; not those of `own`.  The world is locked. */
static int search(const struct world *world, struct kiln_meaning_scratch *s,
                  const struct kiln_gallery_filter *filter, struct kiln_vector_query *query,
                  uint32_t own, struct kiln_meaning_hit *hits, struct kiln_meaning_found *ret,
                  struct kiln_error *err)
{
    struct kiln_vector_found found;
    int code = fill_mask(world, s, filter, query, err);
    if (code == 0 && own < query->mask_rows)
        s->mask[own / 64] &= ~(UINT64_C(1) << (own % 64));
    if (code == 0)
        code = kiln_vector_index_search(world->index, s->search, query, s->hits, &found, err);
    if (code != 0)
        return code;
    for (uint32_t i = 0; i < found.count; i++)
        s->prompts[i] = world->prompts[s->hits[i].number];
    kiln_catalogue_newest(world->catalogue, filter, s->prompts, found.count, s->jobs);
    const float alike = found.usual + SPREADS * found.spread;
    for (uint32_t i = 0; i < found.count; i++) {
        if (s->jobs[i] == 0) /* removed a moment ago */
            continue;
        ret->near += s->hits[i].score > alike;
        hits[ret->count++] = (struct kiln_meaning_hit){s->jobs[i], s->hits[i].score};
    }
    return 0;
}

int kiln_meaning_search(struct kiln_meaning *m, struct kiln_meaning_scratch *s,
                        const struct kiln_gallery_filter *filter, const char *text, uint32_t count,
                        struct kiln_meaning_hit *hits, struct kiln_meaning_found *ret,
                        struct kiln_error *err)
{
    uint64_t sketch[KILN_SKETCH_WORDS];
    struct kiln_vector_query query = {.query = s->query, .sketch = sketch, .count = count};
    *ret = (struct kiln_meaning_found){0};
    int code =
        kiln_embedder_embed(m->embedder, KILN_EMBED_QUERY,
                            &(struct kiln_embed_text){text, strlen(text)}, 1, s->vector, err);
    if (code != 0)
        return code;
    kiln_vector_encode_query(m->coder, s->vector, s->query, &query.scale, sketch);
    ret->known = query.scale > 0;
    if (!ret->known)
        return 0;
    pthread_rwlock_rdlock(&m->lock);
    code = search(m->world, s, filter, &query, KILN_NONE, hits, ret, err);
    pthread_rwlock_unlock(&m->lock);
    return code;
}

int kiln_meaning_similar(struct kiln_meaning *m, struct kiln_meaning_scratch *s,
                         const struct kiln_gallery_filter *filter, uint64_t job, uint32_t count,
                         struct kiln_meaning_hit *hits, struct kiln_meaning_found *ret,
                         struct kiln_error *err)
{
    uint64_t sketch[KILN_SKETCH_WORDS];
    struct kiln_vector_query query = {.query = s->query, .sketch = sketch, .count = count};
    int code = 0;
    *ret = (struct kiln_meaning_found){0};
    pthread_rwlock_rdlock(&m->lock);
    const struct world *world = m->world;
    uint32_t prompt = kiln_catalogue_prompt_of(world->catalogue, job);
    uint32_t row = prompt < world->prompt_count ? world->places[prompt] : KILN_NONE;
    ret->known = kiln_vector_index_query(world->index, row, s->query, &query.scale, sketch);
    if (ret->known)
        code = search(world, s, filter, &query, row, hits, ret, err);
    pthread_rwlock_unlock(&m->lock);
    return code;
}

void kiln_meaning_progress(struct kiln_meaning *m, uint32_t *ret_pictures, uint32_t *ret_prompts,
                           uint32_t *ret_waiting)
{
    pthread_rwlock_rdlock(&m->lock);
    *ret_pictures = kiln_catalogue_count(m->world->catalogue, ret_prompts);
    *ret_waiting = m->world->prompt_count - m->world->waiting;
    pthread_rwlock_unlock(&m->lock);
}
