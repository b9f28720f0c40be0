/* search.c - see search.h. */
#include "scheduler/cache/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/digest.h"
#include "schemas/job/line.h"
#include "schemas/reuse/guard.h"

/* --- keys ------------------------------------------------------------------------------------- */

static void make_key(const char *context, const char *what, const void *of, size_t size,
                     uint8_t ret[KILN_DONOR_KEY])
{
    char text[KILN_NAME_MAX + KILN_LORA_SET_MAX + 256], hex[2 * KILN_SHA256_SIZE + 1];
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_hex(of, size, hex);
    int len = snprintf(text, sizeof text, "%s %s %s", what, hex, context);
    kiln_sha256(text, (size_t)len, digest);
    memcpy(ret, digest, KILN_DONOR_KEY);
}

void kiln_donor_keys(const struct kiln_donor_kind *kind, const char *prompt_hash,
                     const char *negative, const struct kiln_facts *facts,
                     struct kiln_donor_keys *ret)
{
    char context[KILN_NAME_MAX + KILN_LORA_SET_MAX + 160];
    uint8_t digest[KILN_SHA256_SIZE];
    uint64_t unwanted = 0;
    if (facts && negative[0]) {
        kiln_sha256(negative, strlen(negative), digest);
        memcpy(&unwanted, digest, sizeof unwanted);
    }
    snprintf(context, sizeof context, "%ux%u %u %d %llx %llx %s %s", kind->width, kind->height,
             kind->steps, kind->coarse, (unsigned long long)kind->weights,
             (unsigned long long)unwanted, kind->model, kind->lora_set);
    kiln_sha256(prompt_hash, strlen(prompt_hash), digest);
    *ret = (struct kiln_donor_keys){.worded = facts != NULL};
    /* The hash of the prompt covers what is unwanted. */
    make_key(context, "prompt", digest, sizeof digest, ret->at[KILN_DONOR_EXACT]);
    if (!facts)
        return;
    const struct kiln_reuse_block block = kiln_reuse_block_of(facts);
    make_key(context, "canonical", kiln_facts_canonical(facts), KILN_SHA256_SIZE,
             ret->at[KILN_DONOR_CANONICAL]);
    make_key(context, "subject", &block.subject, sizeof block.subject, ret->at[KILN_DONOR_SUBJECT]);
    ret->said = block.said;
}

static uint32_t mark_of(const void *hash)
{
    uint32_t mark;
    memcpy(&mark, hash, sizeof mark);
    return mark ? mark : 1; /* 0 is none */
}

struct kiln_reuse_marks kiln_donor_marks(const char *prompt_hash, const struct kiln_facts *facts,
                                         uint64_t *ret_said)
{
    _Static_assert(KILN_REUSE_MARKS == KILN_DONOR_WAYS &&
                       KILN_REUSE_SUBJECT == (int)KILN_DONOR_SUBJECT,
                   "a mark for each way to find a prompt");
    char digits[9];
    snprintf(digits, sizeof digits, "%s", prompt_hash);
    const uint32_t exact = (uint32_t)strtoul(digits, NULL, 16);
    struct kiln_reuse_marks marks = {.at = {[KILN_DONOR_EXACT] = mark_of(&exact)}};
    *ret_said = 0;
    if (facts) {
        const struct kiln_reuse_block block = kiln_reuse_block_of(facts);
        marks.at[KILN_DONOR_CANONICAL] = mark_of(kiln_facts_canonical(facts));
        marks.at[KILN_DONOR_SUBJECT] = mark_of(&block.subject);
        *ret_said = block.said;
    }
    return marks;
}

struct kiln_facts *kiln_donor_facts(const struct kiln_reuse_words *words, const char *prompt)
{
    struct kiln_facts *facts;
    struct kiln_error err;
    if (!words || strnlen(prompt, KILN_SEARCH_PROMPT + 1) > KILN_SEARCH_PROMPT)
        return NULL;
    return kiln_facts_read(words, prompt, &facts, &err) == 0 ? facts : NULL;
}

/* --- the search ------------------------------------------------------------------------------- */

#define SAME (1u << KILN_REUSE_SAME_PROMPT)
#define WORDED (1u << KILN_REUSE_REWORDED | 1u << KILN_REUSE_DONOR_SAYS_MORE)

struct search {
    const struct kiln_donor_index *index;
    const struct kiln_model_card *card;
    const struct kiln_reuse_words *words;
    const struct kiln_job *job;
    const struct kiln_search_watch *watch;
    const char *hash;
    struct kiln_facts *facts; /* of the job's prompt, if another class than the same is measured */
    bool whole;
    uint32_t judged, bytes;
    struct kiln_donor best;
    double forwards; /* that a run from it costs */
};

struct found {
    struct kiln_reuse_pool pool;
    uint64_t job; /* of the donor that was used least */
};

static void add_prompt(const struct search *search, const uint8_t *exact, struct found *found)
{
    const struct kiln_donor_pool pool = kiln_donor_index_pool(search->index, exact);
    if (found->pool.donors == 0 || pool.uses < found->pool.uses) {
        found->job = pool.job;
        found->pool.uses = pool.uses;
    }
    found->pool.donors += pool.donors;
}

static bool is_exact(const struct kiln_donor_prompt *prompt, const struct kiln_donor_keys *keys)
{
    return memcmp(prompt->exact, keys->at[KILN_DONOR_EXACT], KILN_DONOR_KEY) == 0;
}

static void find_canonical(struct search *search, const struct kiln_donor_keys *keys,
                           struct found *found)
{
    struct kiln_donor_prompt prompt;
    uint32_t at = 0, left = KILN_CHAIN_LOOK;
    while (found->pool.donors < KILN_POOL_LOOK &&
           kiln_donor_index_next(search->index, KILN_DONOR_CANONICAL,
                                 keys->at[KILN_DONOR_CANONICAL], 0, &at, &left, &prompt))
        if (!is_exact(&prompt, keys))
            add_prompt(search, prompt.exact, found);
}

static enum kiln_reuse_class judge(struct search *search, const char *text)
{
    const bool watched = search->watch && search->watch->prompt;
    char reason[KILN_REUSE_REASON_MAX] = "it cannot be read";
    struct kiln_facts *facts = kiln_donor_facts(search->words, text);
    const enum kiln_reuse_class class =
        facts ? kiln_reuse_compare(search->facts, facts, watched ? reason : NULL) : KILN_REUSE_NONE;
    kiln_facts_free(facts);
    if (watched)
        search->watch->prompt(search->watch->arg, text, class, reason);
    return class;
}

/* Prompts in other words, each judged by the guard. */
static void find_worded(struct search *search, const struct kiln_donor_keys *keys,
                        struct found founds[KILN_REUSE_CLASS_COUNT])
{
    struct kiln_donor_prompt prompt;
    uint32_t at = 0, left = KILN_CHAIN_LOOK, donors = 0;
    while (donors < KILN_POOL_LOOK && search->judged < KILN_SEARCH_JUDGED &&
           search->bytes < KILN_SEARCH_BYTES &&
           kiln_donor_index_next(search->index, KILN_DONOR_SUBJECT, keys->at[KILN_DONOR_SUBJECT],
                                 keys->said, &at, &left, &prompt)) {
        if (is_exact(&prompt, keys))
            continue;
        search->judged++;
        search->bytes += (uint32_t)strlen(prompt.text);
        const enum kiln_reuse_class class = judge(search, prompt.text);
        if (class != KILN_REUSE_REWORDED && class != KILN_REUSE_DONOR_SAYS_MORE)
            continue;
        const uint32_t before = founds[class].pool.donors;
        add_prompt(search, prompt.exact, &founds[class]);
        donors += founds[class].pool.donors - before;
    }
}

/* For people: prompts of the subject that were sorted out before they were compared. */
static void watch_others(struct search *search, const struct kiln_donor_keys *keys)
{
    struct kiln_donor_prompt prompt;
    uint32_t at = 0, left = KILN_CHAIN_LOOK;
    for (int shown = 0;
         shown < KILN_SEARCH_JUDGED &&
         kiln_donor_index_next(search->index, KILN_DONOR_SUBJECT, keys->at[KILN_DONOR_SUBJECT], 0,
                               &at, &left, &prompt);)
        if (!kiln_reuse_said_serves(keys->said, prompt.said)) {
            (void)judge(search, prompt.text);
            shown++;
        }
}

/* The better of what was best and what the donors of this kind allow. */
static void look(struct search *search, const struct kiln_donor_kind *kind, bool small,
                 uint32_t classes)
{
    const struct kiln_job *job = search->job;
    struct found founds[KILN_REUSE_CLASS_COUNT] = {0};
    struct kiln_donor_keys keys;
    kiln_donor_keys(kind, search->hash, job->negative_prompt, search->facts, &keys);
    if (classes & SAME)
        add_prompt(search, keys.at[KILN_DONOR_EXACT], &founds[KILN_REUSE_SAME_PROMPT]);
    if (keys.worded && classes & 1u << KILN_REUSE_CANONICAL)
        find_canonical(search, &keys, &founds[KILN_REUSE_CANONICAL]);
    if (keys.worded && classes & WORDED)
        find_worded(search, &keys, founds);
    if (keys.worded && search->watch && search->watch->prompt)
        watch_others(search, &keys);
    for (int class = KILN_REUSE_SAME_PROMPT; class < KILN_REUSE_CLASS_COUNT; class ++) {
        struct found *found = &founds[class];
        found->pool.class = (enum kiln_reuse_class) class;
        found->pool.small = small;
        found->pool.exact = !kind->coarse && !small;
        found->pool.whole = search->whole;
        const struct kiln_reuse_start start =
            found->pool.donors ? kiln_reuse_start(search->card, job, &found->pool)
                               : (struct kiln_reuse_start){0};
        const uint32_t depth = start.row ? start.row->depth : 0;
        if (search->watch && search->watch->pool)
            search->watch->pool(search->watch->arg, kind, &found->pool, &start,
                                depth ? NULL : kiln_reuse_refusal(search->card, job, &found->pool));
        if (!depth || (search->best.job && start.forwards >= search->forwards))
            continue;
        search->forwards = start.forwards;
        search->best = (struct kiln_donor){.job = found->job,
                                           .step = depth,
                                           .hit = class,
                                           .variety = start.row->variety,
                                           .coarse = start.coarse};
    }
}

struct kiln_donor kiln_donor_search(const struct kiln_donor_stock *stock,
                                    const struct kiln_job *job, uint64_t weights,
                                    const struct kiln_search_watch *watch,
                                    struct kiln_reuse_marks *ret_marks)
{
    char hash[65], set[KILN_LORA_SET_MAX];
    const struct kiln_model_card *card = stock->card;
    struct search search = {.index = stock->index,
                            .card = card,
                            .words = stock->words,
                            .job = job,
                            .watch = watch,
                            .hash = hash,
                            .whole = stock->whole};
    struct kiln_donor_kind kind = {.model = job->model,
                                   .weights = weights,
                                   .width = job->width,
                                   .height = job->height,
                                   .steps = job->steps,
                                   .lora_set = set};
    struct kiln_picture_size size;
    uint64_t said;
    const bool any = watch != NULL; /* for people, also what cannot be of use */
    const uint32_t classes = kiln_reuse_classes(card, job, false, any);
    const uint32_t small = card->reuse.small_count > 0 && kiln_reuse_small_size(card, job, &size)
                               ? kiln_reuse_classes(card, job, true, any)
                               : 0;
    *ret_marks = (struct kiln_reuse_marks){0};
    if (!(classes | small) && !watch)
        return search.best;
    kiln_lora_set_key(job->loras, job->lora_count, set, sizeof set);
    kiln_prompt_hash(kiln_job_drawn(job), job->negative_prompt, hash);
    if ((classes | small) & ~SAME)
        search.facts = kiln_donor_facts(stock->words, kiln_job_drawn(job));
    *ret_marks = kiln_donor_marks(hash, search.facts, &said);
    if (stock->news)
        kiln_donor_news_narrow(stock->news, said, ret_marks);
    if (!watch && stock->news && !kiln_donor_news_ever(stock->news, ret_marks)) {
        kiln_facts_free(search.facts);
        return search.best;
    }
    look(&search, &kind, false, classes);
    kind.coarse = true;
    if (job->mode.kind != KILN_MODE_EXACT) /* an exact picture begins from exact ones alone */
        look(&search, &kind, false, classes);
    kind.coarse = false;
    if (small) {
        kind.width = size.width;
        kind.height = size.height;
        look(&search, &kind, true, small);
    }
    kiln_facts_free(search.facts);
    return search.best;
}
