/* sizes.c - the three lists of resolutions, and how an aspect is matched against them.
 *
 * The model renders best near the areas it was trained on, so an aspect asks for a shape and not
 * for exact pixels: "16:9" is 1344x768, whose ratio is 1.75.  Ratios are compared by their
 * logarithm, so that 3:4 is as far from 2:3 as 4:3 is from 3:2.
 */
#include "schemas/job/sizes.h"

#include <math.h>
#include <string.h>

#include "schemas/limits.h"
#include "schemas/text/utf8.h"

const struct kiln_stored_size kiln_stored_sizes[KILN_STORED_SIZES] = {
    [KILN_STORED_FULL] = {"full", 0},
    [KILN_STORED_MEDIUM] = {"512", 512},
    [KILN_STORED_SMALL] = {"256", 256},
};

struct shape {
    uint32_t width, height;
};

struct size_list {
    const char *word; /* after the aspect */
    struct shape shapes[8];
    size_t count;
};

static const struct size_list lists[] = {
    {"",
     {{1024, 1024},
      {1344, 768},
      {768, 1344},
      {1152, 896},
      {896, 1152},
      {1536, 640},
      {1216, 832},
      {832, 1216}},
     8},
    {"xl", {{1536, 1536}, {1920, 1088}, {1088, 1920}, {1536, 1152}, {1152, 1536}}, 5},
    {"max", {{2048, 2048}, {2048, 1152}, {1152, 2048}, {2048, 1536}, {1536, 2048}}, 5},
};

#define RATIO_TOLERANCE 0.05

/* Digits from *at on; false if there are none or more than make sense. */
static bool read_number(const char **at, const char *end, uint32_t *ret)
{
    const char *start = *at;
    uint32_t value = 0;
    while (*at < end && **at >= '0' && **at <= '9' && *at - start < 6)
        value = value * 10 + (uint32_t)(*(*at)++ - '0');
    *ret = value;
    return *at > start && value > 0;
}

int kiln_side_check(const char *name, int64_t side, struct kiln_error *err)
{
    if (side < KILN_SIDE_MIN || side > KILN_SIDE_MAX)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s is %lld; allowed are multiples of %d from %d to %d", name,
                         (long long)side, KILN_SIDE_STEP, KILN_SIDE_MIN, KILN_SIDE_MAX);
    int64_t rest = side % KILN_SIDE_STEP;
    if (rest == 0)
        return 0;
    int64_t below = side - rest;
    if (rest * 2 == KILN_SIDE_STEP)
        return kiln_fail(
            err, KILN_BAD_INPUT,
            "%s is %lld, which is not a multiple of %d; the nearest allowed are %lld and %lld",
            name, (long long)side, KILN_SIDE_STEP, (long long)below,
            (long long)(below + KILN_SIDE_STEP));
    return kiln_fail(err, KILN_BAD_INPUT,
                     "%s is %lld, which is not a multiple of %d; the nearest allowed is %lld", name,
                     (long long)side, KILN_SIDE_STEP,
                     (long long)(rest * 2 < KILN_SIDE_STEP ? below : below + KILN_SIDE_STEP));
}

static int refuse(const char *text, size_t len, struct kiln_error *err)
{
    return kiln_fail(
        err, KILN_BAD_INPUT,
        "size is \"%.*s\"; it is WIDTHxHEIGHT or one of 1:1, 16:9, 9:16, 4:3, 3:4, 3:2, "
        "2:3, 21:9, or 1:1, 16:9, 9:16, 4:3, 3:4 followed by xl or max",
        (int)(len < 40 ? len : kiln_utf8_whole(text, 40)), text);
}

/* The list that the word after the aspect names; NULL if it names none. */
static const struct size_list *find_list(const char *at, const char *end)
{
    bool spaced = at < end && *at == ' ';
    while (at < end && *at == ' ')
        at++;
    size_t len = (size_t)(end - at);
    if (len > 0 && !spaced)
        return NULL;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (strlen(lists[i].word) == len && strncmp(lists[i].word, at, len) == 0)
            return &lists[i];
    return NULL;
}

static const struct shape *nearest_shape(const struct size_list *list, double ratio)
{
    const struct shape *best = NULL;
    double best_off = log(1 + RATIO_TOLERANCE);
    for (size_t i = 0; i < list->count; i++) {
        double off = fabs(log((double)list->shapes[i].width / list->shapes[i].height / ratio));
        if (off < best_off) {
            best = &list->shapes[i];
            best_off = off;
        }
    }
    return best;
}

/* A listed side for a model of another size; factor 1 leaves it as it is. */
static uint32_t scale_side(uint32_t side, double factor)
{
    long scaled = lround(side * factor / KILN_SIDE_STEP) * KILN_SIDE_STEP;
    return scaled < KILN_SIDE_MIN ? KILN_SIDE_MIN : (uint32_t)scaled;
}

int kiln_size_parse(const char *text, size_t len, uint32_t own, uint32_t *ret_width,
                    uint32_t *ret_height, struct kiln_error *err)
{
    const char *at = text, *end = text + len;
    uint32_t first, second;
    if (!read_number(&at, end, &first) || at == end)
        return refuse(text, len, err);
    char between = *at++;
    if (!read_number(&at, end, &second))
        return refuse(text, len, err);
    if ((between == 'x' || between == 'X') && at == end) {
        int code = kiln_side_check("width", first, err);
        if (!code)
            code = kiln_side_check("height", second, err);
        if (code)
            return code;
        *ret_width = first;
        *ret_height = second;
        return 0;
    }
    const struct size_list *list = between == ':' ? find_list(at, end) : NULL;
    const struct shape *shape = list ? nearest_shape(list, (double)first / second) : NULL;
    if (!shape)
        return refuse(text, len, err);
    double longest = shape->width > shape->height ? shape->width : shape->height;
    double factor =
        fmin((double)(own ? own : KILN_SIDE_DEFAULT) / KILN_SIDE_DEFAULT, KILN_SIDE_MAX / longest);
    *ret_width = scale_side(shape->width, factor);
    *ret_height = scale_side(shape->height, factor);
    return 0;
}
