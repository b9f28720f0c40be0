/* stream.c - `kiln bench teleport-stream`: what the table of a model's kiln.json saves on a stream
 * of jobs like a gallery's, at each `alike`, exact ones or (--mode) coarse first.  Virtual:
 * nothing is rendered; what a hit loses is what the table says, with its standard error against it.
 *
 * A job repeats the prompt of an earlier job (--repeats), rewords it (--rewordings), or is new. The
 * earlier job is any with the same chance, so that prompts which were asked for often go on so:
 * their numbers follow a power law (Simon, Biometrika 42, 1955).  A rewording is accepted by the
 * guard as often as it was in its measurement (schemas/reuse/README.md).  A full run is a donor; a
 * run from a donor is none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/bench/bench.h"
#include "scheduler/cache/rule.h"
#include "scheduler/cli/core/paths.h"
#include "schemas/random.h"

#define SEED 33
#define ACCEPTED 0.625 /* of prompts with the same facts */
#define DONORS_MAX 16  /* of a prompt; a newer one takes the place of the one used most */
#define CLASSES KILN_REUSE_CLASS_COUNT

struct prompt {
    uint32_t worded_after; /* the prompt that it rewords, or itself */
    uint32_t donors;
    uint16_t uses[DONORS_MAX];
};

struct stream {
    const struct kiln_model_card *card;
    struct kiln_job job;
    uint32_t rows; /* of the table that its mode is looked up in first */
    long jobs;
    double repeats, rewordings;
    struct prompt *prompts;
    uint32_t prompt_count, *prompt_of; /* of each job */
};

struct outcome {
    double own, steps; /* forwards without and with the cache */
    double attributes, whole;
    long hits[CLASSES], repeats;
};

/* The donor of the prompt that was used least; -1 if it has none. */
static int least_used(const struct prompt *prompt)
{
    int least = -1;
    for (int i = 0; i < (int)prompt->donors; i++)
        if (least < 0 || prompt->uses[i] < prompt->uses[least])
            least = i;
    return least;
}

static void add_donor(struct prompt *prompt)
{
    int most = 0;
    for (int i = 1; i < (int)prompt->donors; i++)
        if (prompt->uses[i] > prompt->uses[most])
            most = i;
    if (prompt->donors < DONORS_MAX)
        prompt->uses[prompt->donors++] = 0;
    else
        prompt->uses[most] = 0;
}

/* Whether a job may begin from the donors of a prompt, of which one is then used once more. */
static bool hits(struct stream *s, struct prompt *from, enum kiln_reuse_class class,
                 struct outcome *outcome)
{
    const int donor = least_used(from);
    if (donor < 0)
        return false;
    const struct kiln_reuse_pool pool = {
        .class = class, .donors = from->donors, .uses = from->uses[donor]};
    const struct kiln_reuse_start start = kiln_reuse_start(s->card, &s->job, &pool);
    if (!start.row)
        return false;
    from->uses[donor]++;
    outcome->hits[class]++;
    outcome->attributes += start.row->loss_attributes;
    outcome->whole += start.row->loss_whole;
    outcome->steps += start.forwards;
    return true;
}

/* The prompt of the next job. */
static uint32_t next_prompt(struct stream *s, long number, uint64_t *random, bool *ret_repeat)
{
    const double what = kiln_random_share(random), which = kiln_random_share(random);
    const double accepted = kiln_random_share(random);
    *ret_repeat = number > 0 && what < s->repeats;
    const uint32_t earlier = number > 0 ? s->prompt_of[(long)(which * (double)number)] : 0;
    if (*ret_repeat)
        return earlier;
    struct prompt *prompt = &s->prompts[s->prompt_count];
    const bool reworded = number > 0 && what < s->repeats + s->rewordings && accepted < ACCEPTED;
    prompt->worded_after = reworded ? earlier : s->prompt_count;
    return s->prompt_count++;
}

static void run(struct stream *s, struct outcome *outcome)
{
    const double own = kiln_reuse_own_forwards(s->card, &s->job);
    uint64_t random = SEED;
    *outcome = (struct outcome){0};
    s->prompt_count = 0;
    memset(s->prompts, 0, (size_t)s->jobs * sizeof *s->prompts);
    for (long i = 0; i < s->jobs; i++) {
        bool repeat;
        const uint32_t number = next_prompt(s, i, &random, &repeat);
        struct prompt *prompt = &s->prompts[number];
        s->prompt_of[i] = number;
        outcome->repeats += repeat;
        s->job.seed = (uint64_t)i;
        outcome->own += own;
        if (hits(s, prompt, KILN_REUSE_SAME_PROMPT, outcome) ||
            (prompt->worded_after != number &&
             hits(s, &s->prompts[prompt->worded_after], KILN_REUSE_REWORDED, outcome)))
            continue;
        outcome->steps += own;
        add_donor(prompt);
    }
    outcome->attributes /= (double)s->jobs;
    outcome->whole /= (double)s->jobs;
}

static json_t *outcome_json(const struct stream *s, const struct outcome *o)
{
    json_t *hits = json_object();
    for (int c = 1; c < CLASSES; c++)
        json_object_set_new(hits, kiln_reuse_class_name((enum kiln_reuse_class)c),
                            json_integer(o->hits[c]));
    return json_pack("{s:I, s:o, s:f, s:f, s:f}", "alike", (json_int_t)s->job.alike, "hits", hits,
                     "saved_percent", 100 * (1 - o->steps / o->own), "lost_attributes",
                     o->attributes, "lost_whole", o->whole);
}

static int run_all(const struct kiln_bench *bench, struct stream *s)
{
    static const uint32_t alike[] = {0, 25, 50, 75, 100};
    json_t *list = json_array();
    struct outcome outcome;
    if (!bench->cli->json) {
        char mode[KILN_MODE_MAX];
        kiln_mode_text(&s->job.mode, mode);
        printf("teleport-stream: %ld jobs of %ux%u in %u steps, %s, %.0f %% repeats, %.0f %% "
               "rewordings, by the table of kiln.json (%u rows)\n",
               s->jobs, s->job.width, s->job.height, s->job.steps, kiln_mode_shown(mode),
               100 * s->repeats, 100 * s->rewordings, s->rows);
        puts("  alike  repeats  same prompt  reworded  steps saved  lost: attributes  whole "
             "prompts (points)");
    }
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        s->job.alike = alike[i];
        run(s, &outcome);
        if (bench->cli->json)
            json_array_append_new(list, outcome_json(s, &outcome));
        else
            printf("  %5u  %7ld  %11ld  %8ld  %9.1f %%  %16.2f  %13.2f\n", alike[i],
                   outcome.repeats, outcome.hits[KILN_REUSE_SAME_PROMPT],
                   outcome.hits[KILN_REUSE_REWORDED], 100 * (1 - outcome.steps / outcome.own),
                   outcome.attributes, outcome.whole);
    }
    if (!bench->cli->json) {
        json_decref(list);
        return 0;
    }
    return kiln_print_json(bench->cli,
                           json_pack("{s:s, s:I, s:I, s:f, s:f, s:I, s:o}", "bench",
                                     "teleport-stream", "jobs", (json_int_t)s->jobs, "seed",
                                     (json_int_t)SEED, "repeats", s->repeats, "rewordings",
                                     s->rewordings, "rows", (json_int_t)s->rows, "alike", list));
}

int kiln_bench_teleport_stream(struct kiln_bench *bench, struct kiln_error *err)
{
    struct kiln_model_card card;
    struct stream s = {.card = &card,
                       .jobs = bench->jobs,
                       .repeats = (double)bench->repeats / 100,
                       .rewordings = (double)bench->rewordings / 100};
    const char *named = kiln_config_text(bench->cli->config, KILN_KEY_MODEL);
    char programs[PATH_MAX], *demo = NULL;
    int code = 0;
    if (!named[0]) {
        code = kiln_program_dir(programs, err);
        demo = code ? NULL : kiln_demo_model(programs);
        if (code == 0 && !demo)
            code = kiln_fail(err, KILN_NOT_FOUND, "--model DIR is missing");
    }
    code = code ? code : kiln_model_card_read(demo ? demo : named, &card, err);
    free(demo);
    if (code)
        return code;
    const bool exact = bench->mode.kind == KILN_MODE_EXACT;
    const struct kiln_card_reuse_row *rows =
        kiln_card_reuse_rows(&card.reuse, exact ? KILN_REUSE_OWN : KILN_REUSE_COARSE, &s.rows);
    s.job = (struct kiln_job){.kind = KILN_KIND_IMAGE,
                              .width = s.rows ? rows[0].sizes[0].width_min : 256,
                              .height = s.rows ? rows[0].sizes[0].height_min : 256,
                              .steps = card.reuse.steps ? card.reuse.steps : KILN_STEPS_DEFAULT,
                              .mode = bench->mode,
                              .teleport = KILN_TELEPORT_AUTO};
    s.prompts = calloc((size_t)s.jobs, sizeof *s.prompts);
    s.prompt_of = calloc((size_t)s.jobs, sizeof *s.prompt_of);
    code = s.prompts && s.prompt_of ? run_all(bench, &s)
                                    : kiln_fail(err, KILN_NO_MEMORY, "no memory for the jobs");
    free(s.prompts);
    free(s.prompt_of);
    return code;
}
