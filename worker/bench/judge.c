/* judge.c - `kiln bench judge`: lets the judge look at pictures that exist, and measures how alike
 * they are.
 *
 * A line of the list names a picture, its latent and what its prompt asks for; the answer to it is
 * a line on standard output.  Distances are those of low-pass latents (pipeline/bench/detail.h), to
 * the nearest other picture of the same group and to the nearest of all.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "pipeline/bench/detail.h"
#include "schemas/room.h"
#include "storage/formats/latentfile.h"
#include "storage/formats/regular.h"
#include "worker/bench/bench.h"
#include "worker/bench/pictures.h"
#include "worker/verbs/options.h"
#include "worker/verbs/verbs.h"

#define LATENT_BYTES_MAX (64 << 20)
#define LIST_MAX 100000
#define LINE_MAX_BYTES 65536
#define CELLS (KILN_LOW_CELLS * KILN_LOW_CELLS)

static const char usage[] =
    "Usage: kiln bench judge --list FILE [options]\n"
    "\n"
    "Looks at pictures that exist, with the judge of `kiln bench quality`, and\n"
    "measures how alike they are. Each line of FILE is an object:\n"
    "\n"
    "  picture                a file\n"
    "  latent                 its latent file, for the distances; may be absent\n"
    "  asked                  what its prompt asks for, as in tests/quality\n"
    "  group                  a number; absent: the picture is in no group\n"
    "\n"
    "The answer to it is an object too: right and asked (attributes), whole, near\n"
    "(the distance to the nearest other picture of its group) and near_any (the same\n"
    "of all pictures); null where there is none.\n"
    "\n"
    "  --list FILE            the pictures\n"
    "  --judge DIR            another judge\n"
    "  --device cpu|cuda:N    (cpu)\n"
    "\n"
    "Example:\n"
    "  kiln bench judge --list pictures.jsonl >seen.jsonl\n";

struct picture {
    json_int_t group; /* -1: none */
    int right, asked;
    bool whole;
    float *low; /* [channels][CELLS]; NULL: no latent */
    double near, near_any; /* squared sums while they are searched; INFINITY: none */
};

struct judged {
    const char *list;
    struct kiln_pictures pictures;
    struct picture *items;
    size_t count, room;
    int channels;
};

/* --- reading ---------------------------------------------------------------------------------- */

static int read_latent(struct judged *judged, const char *path, struct picture *picture,
                       struct kiln_error *err)
{
    struct kiln_latent latent;
    char *data = NULL;
    size_t size = 0;
    int code = kiln_regular_read(path, LATENT_BYTES_MAX, &data, &size, err);
    if (code)
        return code;
    code = kiln_latent_decode_finished((const uint8_t *)data, size, &latent, err);
    free(data);
    if (code)
        return kiln_fail_in(err, "%s", path);
    const int channels = (int)latent.channels;
    if (latent.height < KILN_LOW_CELLS || latent.width < KILN_LOW_CELLS ||
        (judged->channels && channels != judged->channels))
        code = kiln_fail(err, KILN_BAD_INPUT, "%s: a latent of another model, or too small", path);
    judged->channels = channels;
    picture->low = code ? NULL : malloc((size_t)channels * CELLS * sizeof(float));
    if (picture->low)
        kiln_low_pass(latent.values, channels, (int)latent.height, (int)latent.width, picture->low);
    else if (!code)
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the latents");
    kiln_latent_release(&latent);
    return code;
}

static int look(struct judged *judged, const char *path, const json_t *asked,
                struct picture *picture, struct kiln_error *err)
{
    struct kiln_verb_start file = {0};
    struct kiln_asked what;
    struct kiln_seen seen;
    struct kiln_score score;
    int code = kiln_asked_read(asked, judged->pictures.labels, &what, err);
    code = code ? code : kiln_verb_read_picture(path, &file, err);
    code = code ? code
                : kiln_pictures_look(&judged->pictures, &what, file.rgb, file.width, file.height,
                                     &seen, &score, err);
    free(file.rgb);
    if (code)
        return code;
    for (int i = 0; i < KILN_ATTRIBUTES; i++) {
        picture->right += score.right[i];
        picture->asked += score.asked[i];
    }
    picture->whole = kiln_score_whole(&score);
    return 0;
}

static int take(struct judged *judged, const json_t *line, struct kiln_error *err)
{
    const char *path = json_string_value(json_object_get(line, "picture"));
    const json_t *latent = json_object_get(line, "latent"), *group = json_object_get(line, "group");
    struct picture *items = kiln_room(judged->items, judged->count, &judged->room, sizeof *items);
    if (!items)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the list");
    judged->items = items;
    struct picture *picture = &items[judged->count++];
    *picture = (struct picture){.group = -1, .near = INFINITY, .near_any = INFINITY};
    if (!path || (latent && !json_is_null(latent) && !json_is_string(latent)))
        return kiln_fail(err, KILN_BAD_INPUT, "picture and latent must be names of files");
    if (group && !json_is_null(group) && (!json_is_integer(group) || json_integer_value(group) < 0))
        return kiln_fail(err, KILN_BAD_INPUT, "group must be a whole number");
    if (json_is_integer(group))
        picture->group = json_integer_value(group);
    int code = look(judged, path, json_object_get(line, "asked"), picture, err);
    if (code == 0 && json_is_string(latent))
        code = read_latent(judged, json_string_value(latent), picture, err);
    return code;
}

static int read_list(struct judged *judged, struct kiln_error *err)
{
    FILE *file = fopen(judged->list, "re");
    if (!file)
        return kiln_fail(err, errno == ENOENT ? KILN_NOT_FOUND : KILN_IO, "open %s: %s",
                         judged->list, strerror(errno));
    char text[LINE_MAX_BYTES];
    size_t number = 0;
    int code = 0;
    while (code == 0 && fgets(text, sizeof text, file)) {
        json_error_t where;
        number++;
        if (text[0] == '\n')
            continue;
        json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, &where);
        if (judged->count == LIST_MAX)
            code = kiln_fail(err, KILN_BAD_INPUT, "more than %d pictures", LIST_MAX);
        else
            code = line ? take(judged, line, err)
                        : kiln_fail(err, KILN_BAD_INPUT, "%s", where.text);
        json_decref(line);
    }
    if (code && code != KILN_NO_MEMORY)
        code = kiln_fail_in(err, "%s:%zu", judged->list, number);
    else if (!code && ferror(file))
        code = kiln_fail(err, KILN_IO, "read %s: %s", judged->list, strerror(errno));
    fclose(file);
    return code;
}

/* --- distances -------------------------------------------------------------------------------- */

/* The squared sum, given up where it cannot be the least of either any more. */
static double squared(const float *a, const float *b, int channels, double most)
{
    double sum = 0;
    for (int c = 0; c < channels && sum < most; c++) {
        float part = 0;
        for (int i = 0; i < CELLS; i++) {
            const float off = a[c * CELLS + i] - b[c * CELLS + i];
            part += off * off;
        }
        sum += (double)part;
    }
    return sum;
}

static void find_nearest(struct judged *judged)
{
    for (size_t i = 0; i < judged->count; i++)
        for (size_t k = 0; k < i; k++) {
            struct picture *a = &judged->items[i], *b = &judged->items[k];
            if (!a->low || !b->low)
                continue;
            const bool same = a->group >= 0 && a->group == b->group;
            double most = fmax(a->near_any, b->near_any);
            most = same ? fmax(most, fmax(a->near, b->near)) : most;
            const double sum = squared(a->low, b->low, judged->channels, most);
            a->near_any = fmin(a->near_any, sum);
            b->near_any = fmin(b->near_any, sum);
            a->near = same ? fmin(a->near, sum) : a->near;
            b->near = same ? fmin(b->near, sum) : b->near;
        }
}

static json_t *distance_json(double sum, int channels)
{
    return isinf(sum) ? json_null() : json_real(sqrt(sum / (channels * CELLS)));
}

static int print(const struct judged *judged, struct kiln_error *err)
{
    bool good = true;
    for (size_t i = 0; i < judged->count && good; i++) {
        const struct picture *p = &judged->items[i];
        json_t *line = json_pack("{s:i, s:i, s:b, s:o, s:o}", "right", p->right, "asked", p->asked,
                                 "whole", p->whole, "near", distance_json(p->near, judged->channels),
                                 "near_any", distance_json(p->near_any, judged->channels));
        good = line && json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6)) == 0 &&
               putchar('\n') != EOF;
        json_decref(line);
    }
    return good ? 0 : kiln_fail(err, KILN_IO, "write the results");
}

/* --- the verb --------------------------------------------------------------------------------- */

int kiln_bench_judge(int argc, char **argv)
{
    const char *dir = NULL, *model = NULL, *lists = NULL; /* of these the judge alone is used */
    struct judged judged = {0};
    struct kiln_error err;
    int32_t device = -1;
    bool help = false;
    const struct kiln_verb_option table[] = {
        {"list", kiln_take_text, .to = &judged.list}, {"judge", kiln_take_text, .to = &dir},
        {"device", kiln_take_device, .to = &device},  {"model", kiln_take_text, .to = &model},
        {"lists", kiln_take_text, .to = &lists},      {0},
    };
    int code = kiln_verb_options("bench judge", argc, argv, table, &help, &err);
    if (!code && !help && (!judged.list || !dir))
        code = kiln_fail(&err, KILN_BAD_INPUT, "--%s is missing", dir ? "list FILE" : "judge DIR");
    if (code || help) {
        if (code)
            fprintf(stderr, "kiln bench judge: %s\n", err.text);
        else
            fputs(usage, stdout);
        return code ? EX_USAGE : EX_OK;
    }
    code = kiln_pictures_judge(&judged.pictures, dir, device, &err);
    code = code ? code : read_list(&judged, &err);
    if (code == 0) {
        find_nearest(&judged);
        code = print(&judged, &err);
    }
    for (size_t i = 0; i < judged.count; i++)
        free(judged.items[i].low);
    free(judged.items);
    kiln_pictures_close(&judged.pictures);
    return code ? kiln_verb_fail("bench judge", &err) : EX_OK;
}
