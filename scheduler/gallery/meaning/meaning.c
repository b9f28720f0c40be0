/* meaning.c - the keeper's side of meaning.h: loads, applies changes, makes vectors. */
#include "scheduler/gallery/meaning/meaning.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/captions/token_rows.h"
#include "scheduler/gallery/meaning/world.h"
#include "schemas/clock.h"
#include "schemas/room.h"

#define EMBED_MAX 64 /* prompts of one step */
#define WALK 256     /* blocks of the ledger's table of one step, about a thousand prompts */
#define PACK 8       /* prompts that go through a model together; where it has tokens, one by one */
/* Of embedding.  A step that is followed by a rest ends here: as long as it takes, searches have a
 * processor less. */
#define STEP_MS 15
#define LATELY_MS 1000
#define REST_SEARCHED 15     /* times as long as a step took, */
#define REST_NOTED 3         /* while pictures come */
#define NOTED_LATELY_MS 3000 /* longer than a step with its rest */

int kiln_meaning_open(const char *pool, const struct kiln_embedder *embedder,
                      struct kiln_meaning **ret, struct kiln_error *err)
{
    struct kiln_meaning *m = calloc(1, sizeof *m);
    if (!m)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a search by meaning");
    m->pool = pool, m->embedder = embedder;
    m->dims = kiln_embedder_info(embedder)->dims;
    m->step_count = EMBED_MAX;
    pthread_rwlock_init(&m->lock, NULL);
    m->notes = malloc(KILN_MEANING_NOTES_MAX * sizeof *m->notes);
    m->notes_gone = malloc(KILN_MEANING_NOTES_MAX * sizeof *m->notes_gone);
    int code = m->notes && m->notes_gone
                   ? kiln_world_new(m->dims, &m->world, err)
                   : kiln_fail(err, KILN_NO_MEMORY, "no memory for a search by meaning");
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
    kiln_world_free(m->world);
    pthread_rwlock_destroy(&m->lock);
    free(m->notes), free(m->notes_gone);
    free(m);
}

void kiln_meaning_limit(struct kiln_meaning *m, const struct kiln_reuse_words *words)
{
    m->words = words;
}

static int load_picture(void *arg, const struct kiln_prompt_picture *p, struct kiln_error *err)
{
    return kiln_world_put_picture(arg, p, err);
}

static int load_vector(void *arg, const struct kiln_prompt_vector *v, struct kiln_error *err)
{
    struct kiln_world *world = arg;
    uint32_t prompt = kiln_catalogue_prompt(world->catalogue, v->prompt_hash);
    return prompt == KILN_NONE ? 0 : kiln_world_put_vector(world, prompt, v, err);
}

int kiln_meaning_load(struct kiln_meaning *m, struct kiln_ledger *session, struct kiln_error *err)
{
    struct kiln_world *world, *before;
    int code = kiln_world_new(m->dims, &world, err);
    if (code != 0)
        return code;
    code = kiln_gallery_prompt_pictures(session, m->pool, load_picture, world, err);
    if (code == 0)
        code = kiln_gallery_vectors(session, kiln_embedder_info(m->embedder)->recipe, m->dims,
                                    load_vector, world, err);
    if (code != 0) {
        kiln_world_free(world);
        return code;
    }
    pthread_rwlock_wrlock(&m->lock);
    before = m->world;
    m->world = world;
    m->note_count = 0; /* all of them are in what was read, or will be reported again */
    pthread_rwlock_unlock(&m->lock);
    kiln_world_free(before);
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
    int code = kiln_world_put_picture(m->world, p, err);
    pthread_rwlock_unlock(&m->lock);
    return code;
}

/* Those that are gone first: one that came back is read again. */
static int apply_notes(struct kiln_meaning *m, struct kiln_ledger *session, struct kiln_error *err)
{
    if (m->note_count == 0)
        return 0;
    m->noted_ms = kiln_clock_ms();
    for (uint32_t i = 0; i < m->note_count; i++)
        if (m->notes_gone[i])
            kiln_catalogue_remove(m->world->catalogue, m->notes[i]);
    int code = kiln_gallery_prompt_pictures_of(session, m->pool, m->notes, m->note_count,
                                               note_picture, m, err);
    if (code == 0)
        m->note_count = 0;
    return code;
}

int kiln_meaning_rest(const struct kiln_meaning *m)
{
    const int64_t now_ms = kiln_clock_ms(), searched_ms = atomic_load(&m->searched_ms);
    if (searched_ms > 0 && now_ms - searched_ms < LATELY_MS)
        return REST_SEARCHED;
    return m->noted_ms > 0 && now_ms - m->noted_ms < NOTED_LATELY_MS ? REST_NOTED : 0;
}

/* --- tokens ------------------------------------------------------------------------------------
 */
/* Tokens that went into the file, until searches are told of them in one short step. */
struct keeping {
    struct kiln_meaning *m;
    const uint32_t *prompts; /* of copy_asked: those that it is called for */
    uint32_t count;
    size_t room;
    struct kept {
        uint32_t prompt;
        kiln_token_place place;
    } * kept;
};

static int keep_tokens(struct keeping *keeping, uint32_t prompt, const uint8_t *tokens, size_t size,
                       struct kiln_error *err)
{
    struct kept *kept = kiln_room(keeping->kept, keeping->count, &keeping->room, sizeof *kept);
    if (!kept)
        return kiln_world_no_memory(err);
    keeping->kept = kept;
    kept[keeping->count++] =
        (struct kept){prompt, kiln_world_keep(keeping->m->world, tokens, size)};
    return 0;
}

static void end_keeping(struct keeping *keeping, bool walked)
{
    struct kiln_meaning *m = keeping->m;
    pthread_rwlock_wrlock(&m->lock);
    m->world->walked |= walked;
    for (uint32_t i = 0; i < keeping->count; i++)
        kiln_world_put_tokens(m->world, keeping->kept[i].prompt, keeping->kept[i].place);
    pthread_rwlock_unlock(&m->lock);
    free(keeping->kept);
}

/* A kiln_each_stored_tokens. */
static int copy_stored(void *arg, const char *prompt_hash, const uint8_t *tokens, size_t size,
                       struct kiln_error *err)
{
    struct keeping *keeping = arg;
    const struct kiln_world *world = keeping->m->world;
    const uint32_t prompt = kiln_catalogue_prompt(world->catalogue, prompt_hash);
    const uint32_t row = prompt < world->prompt_count ? world->places[prompt] : KILN_NONE;
    const bool wanted = row < KILN_NO_EVIDENCE && !world->tokens[row];
    return wanted ? keep_tokens(keeping, prompt, tokens, size, err) : 0;
}

/* A kiln_each_prompt_tokens. */
static int copy_asked(void *arg, size_t place, const uint8_t *tokens, size_t size,
                      struct kiln_error *err)
{
    struct keeping *keeping = arg;
    return keep_tokens(keeping, keeping->prompts[place], tokens, size, err);
}

/* The next piece of what the ledger has.  Tokens of prompts that come later are kept at once. */
static int walk_tokens(struct kiln_meaning *m, struct kiln_ledger *reader, struct kiln_error *err)
{
    struct keeping keeping = {.m = m};
    bool more = false;
    int code = kiln_gallery_tokens_walk(reader, kiln_embedder_info(m->embedder)->recipe, WALK,
                                        &m->world->block, &more, copy_stored, &keeping, err);
    end_keeping(&keeping, code == 0 && (!more || m->world->file_failed));
    return code;
}

/* --- new vectors ---------------------------------------------------------------------------- */
struct waiting {
    uint32_t prompts[EMBED_MAX];
    uint64_t jobs[EMBED_MAX]; /* a picture of each; 0: there is none now */
    char *texts[EMBED_MAX];
    uint32_t count;
};

/* Prompts without a vector; passes over those that have one.  Before a rest, as many as the last
 * step has embedded in its time. */
static void find_waiting(struct kiln_meaning *m, struct waiting *w)
{
    const uint32_t most = kiln_meaning_rest(m) > 0 ? m->step_count : EMBED_MAX;
    struct kiln_world *world = m->world;
    const struct kiln_gallery_filter all = {.level_max = KILN_SAFETY_LEVELS,
                                            .show_unchecked = true};
    pthread_rwlock_wrlock(&m->lock);
    for (; world->waiting < world->prompt_count && w->count < most; world->waiting++)
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
            return kiln_world_no_memory(err);
    return 0;
}

struct stored {
    struct kiln_meaning *m;
    const struct waiting *w;
    const struct kiln_prompt_hash *hashes; /* [w->count] */
};

static int put_stored(void *arg, const struct kiln_prompt_vector *v, struct kiln_error *err)
{
    const struct stored *stored = arg;
    struct kiln_meaning *m = stored->m;
    int code = 0;
    pthread_rwlock_wrlock(&m->lock);
    for (uint32_t i = 0; i < stored->w->count && code == 0; i++)
        if (strcmp(stored->hashes[i].hex, v->prompt_hash) == 0)
            code = kiln_world_put_vector(m->world, stored->w->prompts[i], v, err);
    pthread_rwlock_unlock(&m->lock);
    return code;
}

/* The tokens of a few prompts, which the ledger has. */
static int copy_tokens_of(struct kiln_meaning *m, struct kiln_ledger *reader,
                          const uint32_t *prompts, const struct kiln_prompt_hash *hashes,
                          uint32_t count, struct kiln_error *err)
{
    struct keeping keeping = {.m = m, .prompts = prompts};
    int code = count == 0 ? 0
                          : kiln_gallery_tokens(reader, kiln_embedder_info(m->embedder)->recipe,
                                                hashes, count, copy_asked, &keeping, err);
    end_keeping(&keeping, false);
    return code;
}

/* Vectors that the ledger has: of prompts whose pictures came back, or from another gallery. */
static int take_stored(struct kiln_meaning *m, struct kiln_ledger *reader, struct waiting *w,
                       struct kiln_error *err)
{
    const char *recipe = kiln_embedder_info(m->embedder)->recipe;
    struct kiln_prompt_hash hashes[EMBED_MAX];
    struct stored stored = {m, w, hashes};
    uint32_t taken[EMBED_MAX], count = 0, left = 0;
    for (uint32_t i = 0; i < w->count; i++)
        kiln_catalogue_hash(m->world->catalogue, w->prompts[i], hashes[i].hex);
    int code = kiln_gallery_vectors_of(reader, recipe, m->dims, hashes, w->count, put_stored,
                                       &stored, err);
    for (uint32_t i = 0; i < w->count && code == 0; i++) {
        if (m->world->places[w->prompts[i]] == KILN_NONE) {
            w->prompts[left] = w->prompts[i];
            w->jobs[left++] = w->jobs[i];
        } else {
            hashes[count] = hashes[i];
            taken[count++] = w->prompts[i];
        }
    }
    w->count = code ? w->count : left;
    return code || !kiln_embedder_has_tokens(m->embedder)
               ? code
               : copy_tokens_of(m, reader, taken, hashes, count, err);
}

/* Stores vectors[0 .. count) of these prompts, in the ledger, then in memory. */
static int store(struct kiln_meaning *m, struct kiln_ledger *writer, const uint32_t *prompts,
                 const struct kiln_prompt_vector *vectors, uint32_t count, struct kiln_error *err)
{
    const bool tokens = kiln_embedder_has_tokens(m->embedder);
    struct keeping keeping = {.m = m};
    int code = kiln_gallery_vectors_put(writer, kiln_embedder_info(m->embedder)->recipe, m->dims,
                                        vectors, count, err);
    pthread_rwlock_wrlock(&m->lock);
    for (uint32_t i = 0; i < count && code == 0; i++) {
        if (vectors[i].scale > 0)
            code = kiln_world_put_vector(m->world, prompts[i], &vectors[i], err);
        else
            m->world->places[prompts[i]] = KILN_NO_EVIDENCE;
    }
    pthread_rwlock_unlock(&m->lock);
    for (uint32_t i = 0; i < count && tokens && code == 0; i++)
        code = keep_tokens(&keeping, prompts[i], vectors[i].tokens, vectors[i].tokens_size, err);
    end_keeping(&keeping, false);
    return code;
}

/* The vector of a text with the features of its tokens; the caller frees vector->tokens. */
static int embed_tokens(struct kiln_meaning *m, const struct kiln_embed_text *text, float *row,
                        struct kiln_prompt_vector *vector, struct kiln_error *err)
{
    const size_t dims = kiln_embedder_info(m->embedder)->token_dims;
    float *features = malloc(KILN_TOKEN_ROWS_MAX * dims * sizeof *features);
    size_t tokens = 0;
    int code = features ? kiln_embedder_embed_tokens(m->embedder, KILN_EMBED_PASSAGE, text, row,
                                                     features, KILN_TOKEN_ROWS_MAX, &tokens, err)
                        : kiln_world_no_memory(err);
    if (code == 0 && tokens > 0) {
        uint8_t *bytes = malloc(kiln_token_rows_size(tokens, dims));
        if (bytes)
            kiln_token_rows_encode(features, tokens, dims, bytes);
        else
            code = kiln_world_no_memory(err);
        vector->tokens = bytes;
        vector->tokens_size = kiln_token_rows_size(tokens, dims);
    }
    free(features);
    return code;
}

/* Embeds the texts in order, *ret_done of them: all, unless a rest is due and it takes longer than
 * STEP_MS. */
static int embed_texts(struct kiln_meaning *m, const struct kiln_embed_text *texts, uint32_t count,
                       float *rows, struct kiln_prompt_vector *vectors, uint32_t *ret_done,
                       struct kiln_error *err)
{
    const int64_t until_ms = kiln_clock_ms() + STEP_MS;
    const bool tokens = kiln_embedder_has_tokens(m->embedder);
    uint32_t done = 0;
    int code = 0;
    while (done < count && code == 0) {
        const uint32_t left = count - done, some = tokens ? 1 : left < PACK ? left : PACK;
        code = tokens ? embed_tokens(m, &texts[done], rows + done * m->dims, &vectors[done], err)
                      : kiln_embedder_embed(m->embedder, KILN_EMBED_PASSAGE, &texts[done], some,
                                            rows + done * m->dims, err);
        done += some;
        if (kiln_clock_ms() >= until_ms && kiln_meaning_rest(m) > 0)
            break;
    }
    *ret_done = done;
    return code;
}

/* Embeds the texts that were found, or the first of them: then *ret_all is false.  rows:
 * [EMBED_MAX][dims] of floats, bytes likewise. */
static int embed(struct kiln_meaning *m, struct kiln_ledger *writer, const struct waiting *w,
                 float *rows, uint8_t *bytes, bool *ret_all, struct kiln_error *err)
{
    struct kiln_embed_text texts[EMBED_MAX];
    struct kiln_prompt_vector vectors[EMBED_MAX] = {0};
    uint32_t prompts[EMBED_MAX], count = 0, done;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->texts[i])
            continue;
        texts[count] = (struct kiln_embed_text){w->texts[i], strlen(w->texts[i])};
        prompts[count++] = w->prompts[i];
    }
    int code = embed_texts(m, texts, count, rows, vectors, &done, err);
    *ret_all = done == count;
    if (done < count)
        m->step_count = done;
    else if (done >= m->step_count) /* it would have had time for more */
        m->step_count = 2 * done < EMBED_MAX ? 2 * done : EMBED_MAX;
    for (uint32_t i = 0; i < done && code == 0; i++) {
        struct kiln_prompt_vector *v = &vectors[i];
        kiln_catalogue_hash(m->world->catalogue, prompts[i], v->prompt_hash);
        v->row = bytes + i * m->dims;
        kiln_vector_encode(rows + i * m->dims, (int64_t)m->dims, bytes + i * m->dims, &v->scale);
    }
    if (code == 0 && done > 0)
        code = store(m, writer, prompts, vectors, done, err);
    for (uint32_t i = 0; i < count; i++)
        free((void *)(uintptr_t)vectors[i].tokens);
    return code;
}

/* Looks at these prompts once more: where a step ended early, or after a failure.  Some of them may
 * have got their vectors before that, and not their tokens, so the walk begins again. */
static void wait_again(struct kiln_meaning *m, uint32_t from, bool failed)
{
    pthread_rwlock_wrlock(&m->lock);
    if (from < m->world->waiting)
        m->world->waiting = from;
    if (failed)
        m->world->walked = false, m->world->block = 0;
    pthread_rwlock_unlock(&m->lock);
}

int kiln_meaning_step(struct kiln_meaning *m, struct kiln_ledger *reader,
                      struct kiln_ledger *writer, bool *ret_more, struct kiln_error *err)
{
    struct waiting w = {.count = 0};
    bool all = true;
    *ret_more = false;
    int code = apply_notes(m, reader, err);
    if (code != 0 || !writer)
        return code;
    const bool walks = kiln_embedder_has_tokens(m->embedder) && !m->world->walked;
    code = walks ? walk_tokens(m, reader, err) : 0;
    if (code != 0)
        return code;
    *ret_more = walks;
    const uint32_t from = m->world->waiting;
    find_waiting(m, &w);
    if (w.count == 0)
        return 0;
    float *rows = malloc(EMBED_MAX * m->dims * sizeof *rows);
    uint8_t *bytes = malloc(EMBED_MAX * m->dims);
    code = rows && bytes ? take_stored(m, reader, &w, err) : kiln_world_no_memory(err);
    if (code == 0)
        code = kiln_gallery_prompts_of(reader, w.jobs, w.count, take_prompt, &w, err);
    if (code == 0)
        code = embed(m, writer, &w, rows, bytes, &all, err);
    for (uint32_t i = 0; i < w.count; i++)
        free(w.texts[i]);
    free(rows), free(bytes);
    if (code != 0 || !all)
        wait_again(m, from, code != 0);
    *ret_more = code == 0 && (walks || m->world->waiting < m->world->prompt_count);
    return code;
}

void kiln_meaning_progress(struct kiln_meaning *m, uint32_t *ret_pictures, uint32_t *ret_prompts,
                           uint32_t *ret_waiting)
{
    pthread_rwlock_rdlock(&m->lock);
    *ret_pictures = kiln_catalogue_count(m->world->catalogue, ret_prompts);
    *ret_waiting = 0;
    for (uint32_t prompt = m->world->waiting; prompt < m->world->prompt_count; prompt++)
        *ret_waiting += m->world->places[prompt] == KILN_NONE;
    pthread_rwlock_unlock(&m->lock);
}

bool kiln_meaning_has_copied(struct kiln_meaning *m)
{
    pthread_rwlock_rdlock(&m->lock);
    const bool copied = m->world->walked && !m->world->file_failed;
    pthread_rwlock_unlock(&m->lock);
    return copied || !kiln_embedder_has_tokens(m->embedder);
}
