/* redraw.c - `kiln redraw JOB...`: enlarge, vary or edit finished pictures.
 *
 *     jobs --donor.c--> a job line each --enqueue.c--> a batch of ordinary jobs
 *
 * A job that cannot be redrawn is named on stderr and refused alone.  The name of the batch is made
 * from the lines, so the same call again finds its jobs there and adds none.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/jobs/enqueue/enqueue.h"
#include "scheduler/cli/jobs/redraw/alike.h"
#include "scheduler/cli/jobs/redraw/donor.h"
#include "schemas/digest.h"
#include "storage/formats/card/model_card.h"
#include "storage/formats/styles_file.h"
#include "storage/ledger/ledger.h"

struct redraw {
    struct kiln_cli *cli;
    struct kiln_redraw_want want;
    struct kiln_enqueue_request request;
    struct kiln_set sets[KILN_GIVEN_MAX + 1];
    struct kiln_styles *styles;
    char size[64], batch[KILN_BATCH_NAME_MAX + 1];
    uint64_t ids[KILN_WORDS_MAX]; /* as given, each once */
    size_t id_count;
    struct kiln_latent_row *latents;               /* [id_count] */
    char model[KILN_NAME_MAX + 1], model_hash[65]; /* of the last donor, so that few are asked */
    bool model_asked;
    /* what came of them */
    struct kiln_text lines;
    uint64_t donors[KILN_WORDS_MAX]; /* of each line */
    size_t line_count, edit_count;   /* edits by difference among them */
    uint32_t width, height;          /* of the first donor */
    struct {
        uint64_t job;
        char *error;
    } refused[KILN_WORDS_MAX];
    size_t refused_count;
};

/* --- the command line ------------------------------------------------------------------------- */

/* Keys of a job line that --set cannot give here, and what to do instead. */
static const struct {
    enum kiln_job_key key;
    const char *instead;
} not_set[] = {
    {KILN_JOB_KEY_PROMPT, "use --prompt TEXT"},
    {KILN_JOB_KEY_SIZE, "use --size S"},
    {KILN_JOB_KEY_WIDTH, "use --size S"},
    {KILN_JOB_KEY_HEIGHT, "use --size S"},
    {KILN_JOB_KEY_COUNT, "use --count N"},
    {KILN_JOB_KEY_STRENGTH, "use --strength X"},
    {KILN_JOB_KEY_MODEL, "a latent serves only the model that made it"},
    {KILN_JOB_KEY_INIT_JOB, "it is the job that is redrawn"},
    {KILN_JOB_KEY_INIT_IMAGE, "the start is the job that is redrawn"},
    {KILN_JOB_KEY_PARENT, "it is the job that is redrawn"},
    {KILN_JOB_KEY_COARSE, "a run from a start is not coarse"},
    {KILN_JOB_KEY_COARSE_SIGMA, "a run from a start is not coarse"},
    {KILN_JOB_KEY_STYLED, "use --set style=NAME"},
};

static int set_sigma(struct redraw *redraw, const char *value)
{
    char *end;
    const double sigma = strtod(value, &end);
    if (end == value || *end || !(sigma > 0 && sigma <= 1) ||
        !kiln_mode_sigma(sigma, &redraw->want.depth.sigma))
        return kiln_usage(redraw->cli, "--set start_sigma=%.32s: it must be %s", value,
                          kiln_job_keys[KILN_JOB_KEY_START_SIGMA].help);
    return 0;
}

/* One --set; the values of most keys are checked with the lines. */
static int take_set(struct redraw *redraw, const char *value)
{
    struct kiln_cli *cli = redraw->cli;
    const int key = kiln_job_key_find(value, strcspn(value, "="));
    const char *equals = strchr(value, '=');
    for (size_t i = 0; i < sizeof not_set / sizeof *not_set; i++)
        if (key == (int)not_set[i].key)
            return kiln_usage(cli, "--set %s: %s", kiln_job_keys[key].name, not_set[i].instead);
    if (key == KILN_JOB_KEY_START_SIGMA && equals)
        return set_sigma(redraw, equals + 1);
    if (key == KILN_JOB_KEY_STYLE && !redraw->want.reprompted)
        return kiln_usage(cli, "--set style needs --prompt: the words of a style are in the prompt "
                               "of its job already");
    if (key == KILN_JOB_KEY_STEPS && redraw->want.depth.run)
        return kiln_usage(cli, "--steps and --set steps are both given; keep one");
    if (key == KILN_JOB_KEY_EDIT && equals) {
        redraw->want.plain = strcmp(equals + 1, "false") == 0;
        return redraw->want.plain ? 0
                                  : kiln_usage(cli, "--set edit: an edit is by difference where it "
                                                    "can be; only edit=false changes that");
    }
    redraw->want.restyled |= key == KILN_JOB_KEY_STYLE;
    redraw->want.seed_set |= key == KILN_JOB_KEY_SEED;
    redraw->want.depth.edits |= key == KILN_JOB_KEY_STYLE || key == KILN_JOB_KEY_LORAS ||
                                key == KILN_JOB_KEY_GUIDANCE || key == KILN_JOB_KEY_NEGATIVE_PROMPT;
    redraw->sets[redraw->request.set_count++] = (struct kiln_set){"set", value};
    return 0;
}

static int read_number(struct kiln_cli *cli, const struct kiln_args *args, const char *name,
                       double most, double *ret)
{
    char *end;
    const char *text = kiln_arg(args, name);
    if (!text)
        return 0;
    *ret = strtod(text, &end);
    return end != text && !*end && *ret >= 0 && *ret <= most
               ? 0
               : kiln_usage(cli, "--%s %.32s: it must be a number from 0 to %g", name, text, most);
}

/* Where the redraws begin. */
static int read_depth(struct redraw *redraw, const struct kiln_args *args)
{
    struct kiln_depth_want *depth = &redraw->want.depth;
    struct kiln_cli *cli = redraw->cli;
    long run;
    depth->alike = -1;
    int status = read_number(cli, args, "strength", 1, &depth->strength);
    status = status ? status : read_number(cli, args, "alike", KILN_ALIKE_MAX, &depth->alike);
    status = status ? status : kiln_arg_int(cli, args, "steps", 1, KILN_STEPS_MAX, 0, &run);
    if (status)
        return status;
    depth->run = (uint32_t)run;
    if (kiln_arg(args, "strength") && depth->strength == 0)
        return kiln_usage(cli, "--strength must be above 0: 0 leaves no step to run");
    return 0;
}

/* The setting `size` given as a flag means the redraws here; from elsewhere it is that of lines
 * without a size, and every line made here has one. */
static int read_size(struct redraw *redraw)
{
    struct kiln_config *config = redraw->cli->config;
    struct kiln_error err;
    uint32_t width, height;
    if (strcmp(kiln_config_origin(config, KILN_KEY_SIZE), "flag --size") != 0)
        return 0;
    snprintf(redraw->size, sizeof redraw->size, "%s", kiln_config_text(config, KILN_KEY_SIZE));
    redraw->want.size = redraw->size;
    redraw->want.own = kiln_model_side(kiln_config_text(config, KILN_KEY_MODEL));
    if (kiln_redraw_size(redraw->size, redraw->want.own, KILN_SIDE_MIN, KILN_SIDE_MIN, &width,
                         &height, &err))
        return kiln_usage(redraw->cli, "--size: %s", err.text);
    return kiln_config_set(config, "size", "1024x1024", "redraw", &err)
               ? kiln_report(redraw->cli, &err)
               : 0;
}

static int read_sets(struct redraw *redraw, const struct kiln_args *args)
{
    const char *prompt = kiln_arg(args, "prompt");
    int status = 0;
    redraw->want.reprompted = redraw->want.depth.edits = prompt != NULL;
    if (prompt)
        redraw->sets[redraw->request.set_count++] = (struct kiln_set){"prompt", prompt};
    for (int i = 0; i < args->given_count && !status; i++)
        if (strcmp(args->given[i].option->name, "set") == 0)
            status = take_set(redraw, args->given[i].value);
    return status;
}

/* What the options together mean. */
static int check_purpose(struct redraw *redraw)
{
    struct kiln_redraw_want *want = &redraw->want;
    struct kiln_depth_want *depth = &want->depth;
    const int depths = (depth->strength > 0) + (depth->sigma > 0) + (depth->alike >= 0);
    if (depths > 1)
        return kiln_usage(redraw->cli,
                          "--strength, --alike and --set start_sigma say the same; keep one");
    depth->enlarges = want->size != NULL;
    if (!depth->enlarges && !depth->edits && !want->seed_set && depths > 0)
        want->count += !want->count;
    if (!depth->enlarges && !depth->edits && !want->seed_set && !want->count)
        return kiln_usage(redraw->cli, "say what to make: --size to enlarge, --count for "
                                       "variations, --prompt or --set loras to edit");
    if (want->count && want->seed_set)
        return kiln_usage(redraw->cli, "--count and --set seed are both given; keep one");
    return 0;
}

static int read_ids(struct redraw *redraw, const struct kiln_args *args)
{
    for (int i = 0; i < args->rest_count; i++) {
        uint64_t id;
        bool again = false;
        int status = kiln_arg_job(redraw->cli, args->rest[i], &id);
        if (status)
            return status;
        for (size_t k = 0; k < redraw->id_count; k++)
            again = again || redraw->ids[k] == id;
        if (!again)
            redraw->ids[redraw->id_count++] = id;
    }
    return 0;
}

static int read_args(struct redraw *redraw, const struct kiln_args *args)
{
    struct kiln_enqueue_request *request = &redraw->request;
    long count;
    request->sets = redraw->sets;
    request->batch = kiln_arg(args, "batch");
    request->dry_run = kiln_arg(args, "dry-run") != NULL;
    request->strict = kiln_arg(args, "strict") != NULL;
    request->no_wait = kiln_arg(args, "no-wait") != NULL;
    int status = read_depth(redraw, args);
    status =
        status ? status : kiln_arg_int(redraw->cli, args, "count", 1, KILN_COUNT_MAX, 0, &count);
    if (status)
        return status;
    redraw->want.count = (uint32_t)count;
    status = read_size(redraw);
    status = status ? status : read_sets(redraw, args);
    status = status ? status : check_purpose(redraw);
    return status ? status : read_ids(redraw, args);
}

/* --- the donors ------------------------------------------------------------------------------- */

static int refuse(struct redraw *redraw, uint64_t job, const char *error, struct kiln_error *err)
{
    char safe[KILN_ERROR_TEXT_MAX];
    char *copy = strdup(error);
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for refusals");
    fprintf(stderr, "job %" PRIu64 ": %s\n", job, kiln_safe_line(error, safe, sizeof safe));
    redraw->refused[redraw->refused_count].job = job;
    redraw->refused[redraw->refused_count++].error = copy;
    return 0;
}

/* A donor whose rows are read. */
struct donor {
    struct redraw *redraw;
    const struct kiln_latent_row *latent;
};

static int take_donor(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    const struct donor *donor = arg;
    struct redraw *redraw = donor->redraw;
    struct kiln_error why;
    int rc = kiln_redraw_line(&redraw->want, row, donor->latent, redraw->model_hash, &redraw->lines,
                              &why);
    if (rc == KILN_BAD_INPUT)
        return refuse(redraw, row->job.id, why.text, err);
    if (rc)
        return kiln_fail(err, rc, "%s", why.text);
    if (redraw->line_count == 0) {
        redraw->width = row->job.width;
        redraw->height = row->job.height;
    }
    redraw->donors[redraw->line_count++] = row->job.id;
    redraw->edit_count += kiln_redraw_differs(&redraw->want, row);
    return 0;
}

/* Asks what the pool renders the model with, unless the donor before had the same. */
static int ask_model(struct redraw *redraw, struct kiln_ledger *ledger,
                     const struct kiln_latent_row *latent, struct kiln_error *err)
{
    if (redraw->model_asked && strcmp(redraw->model, latent->model) == 0)
        return 0;
    int rc = kiln_ledger_model_hash(ledger, kiln_pool(redraw->cli), latent->model,
                                    redraw->model_hash, err);
    snprintf(redraw->model, sizeof redraw->model, "%s", latent->model);
    redraw->model_asked = rc == 0;
    return rc;
}

/* The lines of all donors, in their order. */
static int read_donors(struct redraw *redraw, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_error why;
    const char *pool = kiln_pool(redraw->cli);
    redraw->latents = calloc(redraw->id_count, sizeof *redraw->latents);
    int rc = redraw->latents ? kiln_open_reader(redraw->cli, &ledger, err)
                             : kiln_fail(err, KILN_NO_MEMORY, "no memory for the jobs");
    if (rc == 0)
        rc = kiln_ledger_latents(ledger, pool, redraw->ids, redraw->id_count, redraw->latents, err);
    for (size_t i = 0; i < redraw->id_count && rc == 0; i++) {
        struct donor donor = {redraw, &redraw->latents[i]};
        rc = ask_model(redraw, ledger, donor.latent, err);
        if (rc)
            break;
        rc = kiln_ledger_job(ledger, pool, redraw->ids[i], take_donor, &donor, &why);
        if (rc == KILN_NOT_FOUND) /* also one of another pool */
            rc = refuse(redraw, redraw->ids[i], why.text, err);
        else if (rc)
            *err = why;
    }
    kiln_ledger_close(ledger);
    return rc;
}

/* --- the batch -------------------------------------------------------------------------------- */

/* "redraw-17-1f3a9c07": the first job, and a hash of the lines and of what goes over them. */
static int name_batch(struct redraw *redraw, struct kiln_error *err)
{
    struct kiln_text all = {0};
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[9];
    for (size_t i = 0; i < redraw->request.set_count; i++)
        kiln_text_printf(&all, "%s %s\n", redraw->sets[i].option, redraw->sets[i].value);
    kiln_text_add(&all, redraw->lines.at, redraw->lines.len);
    int rc = all.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for the name of a batch") : 0;
    if (rc == 0) {
        kiln_sha256(all.at, all.len, digest);
        kiln_hex(digest, 4, hex);
        snprintf(redraw->batch, sizeof redraw->batch, "redraw-%" PRIu64 "-%s", redraw->donors[0],
                 hex);
        redraw->request.batch = redraw->batch;
    }
    kiln_text_release(&all);
    return rc;
}

/* How edits are made, and what a depth by likeness comes to for the first donor's size. */
static void say_depth(const struct redraw *redraw)
{
    const struct kiln_depth_want *depth = &redraw->want.depth;
    if (redraw->want.reprompted && redraw->edit_count == redraw->line_count)
        kiln_say(redraw->cli, "edits by difference: what the prompts have in common stays");
    else if (redraw->want.reprompted)
        kiln_say(redraw->cli,
                 "%zu of %s by difference, the others image to image: a difference needs a job "
                 "that was rendered exact, its size and its seed",
                 redraw->edit_count, KILN_COUNT(redraw->line_count, "edit"));
    if (depth->strength > 0 || depth->sigma > 0 ||
        (depth->alike < 0 && (depth->enlarges || depth->edits)))
        return;
    const double alike = depth->alike < 0 ? KILN_ALIKE_DEFAULT : depth->alike;
    const int skip = kiln_alike_skip(alike, redraw->width, redraw->height);
    kiln_say(redraw->cli,
             "alike %g: %d of %d steps are skipped; about %.0f %% of the variety of new seeds "
             "(measured with the sketch model)",
             alike, skip, KILN_ALIKE_STEPS,
             kiln_alike_variety(skip, redraw->width, redraw->height));
}

/* --- what came of it -------------------------------------------------------------------------- */

/* Refused here, by the validator of lines, or by the scheduler. */
static json_t *refusals_json(const struct redraw *redraw, const struct kiln_enqueue_result *result)
{
    json_t *list = json_array();
    for (size_t i = 0; i < redraw->refused_count; i++)
        json_array_append_new(list,
                              json_pack("{s:I, s:s}", "job", (json_int_t)redraw->refused[i].job,
                                        "error", redraw->refused[i].error));
    for (size_t i = 0; i < result->refusal_count; i++) {
        const uint64_t line = result->refusals[i].line;
        const char *error = result->refusals[i].error;
        json_array_append_new(
            list, json_pack("{s:o, s:o}", "job",
                            line ? json_integer((json_int_t)redraw->donors[line - 1]) : json_null(),
                            "error", json_stringn_nocheck(error, strlen(error))));
    }
    return list;
}

static int print_result(const struct redraw *redraw, const struct kiln_enqueue_result *result)
{
    const struct kiln_cli *cli = redraw->cli;
    if (redraw->request.dry_run && !cli->json) {
        kiln_plan_print(cli, &result->plan);
        return 0;
    }
    if (redraw->request.dry_run) {
        json_t *plan = kiln_plan_json(&result->plan);
        if (plan)
            json_object_set_new(plan, "refused", refusals_json(redraw, result));
        return kiln_print_json(cli, plan);
    }
    if (!cli->json) {
        if (result->sent > 0)
            printf("%s\n", result->batch);
        return 0;
    }
    const bool counted = result->receipted || result->sent == 0;
    return kiln_print_json(
        cli,
        json_pack("{s:o, s:o, s:o, s:o}", "batch",
                  result->sent > 0 ? json_string(result->batch) : json_null(), "accepted",
                  counted ? json_integer((json_int_t)result->accepted) : json_null(), "duplicate",
                  counted ? json_integer((json_int_t)result->duplicate) : json_null(), "refused",
                  refusals_json(redraw, result)));
}

/* Sends the lines and prints the result. */
static int send(struct redraw *redraw)
{
    struct kiln_enqueue_result result = {.sent = 0};
    struct kiln_error err;
    const struct kiln_made_lines made = {redraw->lines.at, redraw->lines.len, redraw->donors};
    int status = 0, printed = 0;
    redraw->request.made = &made;
    if (redraw->request.strict && redraw->refused_count > 0)
        kiln_warn(redraw->cli, "%s refused, so nothing was sent (--strict)",
                  KILN_COUNT(redraw->refused_count, "job"));
    else if (redraw->line_count > 0) {
        if (!redraw->request.batch && name_batch(redraw, &err))
            return kiln_report(redraw->cli, &err);
        say_depth(redraw);
        status = kiln_enqueue(redraw->cli, &redraw->request, &result);
    }
    if (status == 0 && redraw->refused_count > 0)
        status = EX_DATAERR;
    if (status == 0 || status == EX_DATAERR || (status == EX_TEMPFAIL && result.sent > 0))
        printed = print_result(redraw, &result);
    kiln_enqueue_release(&result);
    return status ? status : printed;
}

static int run(struct redraw *redraw, const struct kiln_args *args)
{
    struct kiln_error err = {0};
    int status = read_args(redraw, args);
    if (status)
        return status;
    int rc = kiln_styles_file_read(kiln_config_text(redraw->cli->config, KILN_KEY_STYLES),
                                   &redraw->styles, &err);
    redraw->want.styles = redraw->styles ? redraw->styles : kiln_styles_builtin();
    rc = rc ? rc : read_donors(redraw, &err);
    return rc ? kiln_report(redraw->cli, &err) : send(redraw);
}

int kiln_verb_redraw(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct redraw *redraw = calloc(1, sizeof *redraw);
    struct kiln_error err;
    if (!redraw) {
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for the jobs");
        return kiln_report(cli, &err);
    }
    redraw->cli = cli;
    int status = run(redraw, args);
    for (size_t i = 0; i < redraw->refused_count; i++)
        free(redraw->refused[i].error);
    kiln_styles_free(redraw->styles);
    kiln_text_release(&redraw->lines);
    free(redraw->latents);
    free(redraw);
    return status;
}
