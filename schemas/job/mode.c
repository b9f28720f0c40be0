/* mode.c - the texts of modes; see mode.h. */
#include "schemas/job/mode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"

/* How far u may be off for a sigma of four decimals: half a digit times the steepest slope, 3. */
#define SIGMA_SLACK (3 * 0.5e-4)
#define VARIETY "variety="
#define COARSE_DONOR ",teleport="
#define HALF_COST 0.25 /* of a step at half the side: it has a quarter of the tokens */

static const char *start_word(const struct kiln_mode *mode)
{
    return mode->masked ? "inpaint" : mode->edited ? "edit" : mode->reused ? "teleport" : "start";
}

const char *kiln_combine_name(enum kiln_combine combine)
{
    static const char *const names[KILN_COMBINES] = {"single", "lerp", "slerp", "tree"};
    return (unsigned)combine < KILN_COMBINES ? names[combine] : "unknown";
}

int kiln_combine_by_name(const char *name)
{
    for (int i = 0; i < KILN_COMBINES; i++)
        if (strcmp(name, kiln_combine_name((enum kiln_combine)i)) == 0)
            return i;
    return -1;
}

const char *kiln_mode_steps_text(const struct kiln_mode *mode, char ret[KILN_MODE_MAX])
{
    const int len = snprintf(ret, KILN_MODE_MAX, "%u+", mode->small);
    if (mode->middle > 0)
        snprintf(ret + len, KILN_MODE_MAX - (size_t)len, "%u+%u", mode->middle, mode->full);
    else
        snprintf(ret + len, KILN_MODE_MAX - (size_t)len, "%u", mode->full);
    return ret;
}

/* Appends the step of a run from donors, and how several of them are combined. */
static int reused_text(const struct kiln_mode *mode, char *out, size_t room)
{
    int len = snprintf(out, room, "%s=%u", start_word(mode), mode->step);
    if (mode->reused && mode->combine != KILN_COMBINE_SINGLE)
        len += snprintf(out + len, room - (size_t)len, ",%s=%u", kiln_combine_name(mode->combine),
                        mode->donors);
    return len;
}

/* Without variety. */
static size_t plain_text(const struct kiln_mode *mode, char ret[KILN_MODE_MAX])
{
    char steps[KILN_MODE_MAX];
    int len = 0;
    ret[0] = '\0';
    switch (mode->kind) {
    case KILN_MODE_EXACT:
        break;
    case KILN_MODE_COARSE_AUTO:
        len = snprintf(ret, KILN_MODE_MAX, "coarse=auto");
        break;
    case KILN_MODE_COARSE:
        len = snprintf(ret, KILN_MODE_MAX, "coarse=%s", kiln_mode_steps_text(mode, steps));
        if (mode->sigma != KILN_COARSE_SIGMA)
            len += snprintf(ret + len, KILN_MODE_MAX - (size_t)len, "@%.4g", mode->sigma);
        if (mode->reused) {
            ret[len++] = ',';
            len += reused_text(mode, ret + len, KILN_MODE_MAX - (size_t)len);
        }
        break;
    case KILN_MODE_START_STEP:
        len = reused_text(mode, ret, KILN_MODE_MAX);
        break;
    case KILN_MODE_START_SIGMA:
        len = snprintf(ret, KILN_MODE_MAX, "%s@%.4g", start_word(mode), mode->sigma);
        break;
    }
    return (size_t)len;
}

size_t kiln_mode_text(const struct kiln_mode *mode, char ret[KILN_MODE_MAX])
{
    size_t len = plain_text(mode, ret);
    if (mode->variety > 0)
        len += (size_t)snprintf(ret + len, KILN_MODE_MAX - len, "%s" VARIETY "%.4g",
                                len > 0 ? "," : "", mode->variety);
    return len;
}

bool kiln_mode_same(const struct kiln_mode *a, const struct kiln_mode *b)
{
    char text[KILN_MODE_MAX], other[KILN_MODE_MAX];
    kiln_mode_text(a, text);
    kiln_mode_text(b, other);
    return strcmp(text, other) == 0;
}

const char *kiln_mode_shown(const char *text)
{
    return text[0] ? text : "exact";
}

/* A whole number of one or two digits, at least min; moves *text behind it. */
static bool read_steps(const char **text, uint32_t min, uint32_t *ret)
{
    size_t len = strspn(*text, "0123456789");
    if (len < 1 || len > 2 || (len == 2 && **text == '0'))
        return false;
    *ret = (uint32_t)strtoul(*text, NULL, 10);
    *text += len;
    return *ret >= min && *ret <= KILN_STEPS_MAX;
}

/* "S+L" or "S+M+L", moving *text behind it. */
static bool read_levels(const char **text, struct kiln_mode *ret)
{
    *ret = (struct kiln_mode){.kind = KILN_MODE_COARSE, .sigma = KILN_COARSE_SIGMA};
    if (!read_steps(text, 1, &ret->small) || *(*text)++ != '+' || !read_steps(text, 1, &ret->full))
        return false;
    if (**text != '+')
        return true;
    ret->middle = ret->full;
    (*text)++;
    return read_steps(text, 1, &ret->full);
}

bool kiln_mode_parse_coarse(const char *text, struct kiln_mode *ret)
{
    *ret = (struct kiln_mode){.kind = KILN_MODE_EXACT};
    if (strcmp(text, "off") == 0)
        return true;
    ret->kind = KILN_MODE_COARSE_AUTO;
    if (strcmp(text, "auto") == 0)
        return true;
    return read_levels(&text, ret) && *text == '\0';
}

bool kiln_mode_sigma(double sigma, double *ret)
{
    *ret = nearbyint(sigma * 1e4) / 1e4;
    return *ret > 0 && *ret <= 1;
}

bool kiln_mode_variety(double variety, double *ret)
{
    *ret = nearbyint(variety * 1e4) / 1e4;
    return *ret >= 0 && *ret <= 1;
}

/* A sigma or a variety, above 0, moving *text behind it. */
static bool read_part(const char **text, double *ret)
{
    const size_t len = strspn(*text, "0123456789.");
    const char *from = *text;
    char *end;
    if (len == 0 || len > 8)
        return false;
    *text += len;
    return kiln_mode_sigma(strtod(from, &end), ret) && end == *text;
}

/* The same to the end of the text. */
static bool read_sigma(const char *text, double *ret)
{
    return read_part(&text, ret) && !*text;
}

/* ",WAY=N" behind the step of a run from several donors, to the end of the text. */
static bool read_combined(const char *text, struct kiln_mode *ret)
{
    char name[8];
    const char *equals = strchr(text, '=');
    if (*text != ',' || !equals || (size_t)(equals - text) > sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(equals - text - 1), text + 1);
    const int combine = kiln_combine_by_name(name);
    if (combine <= KILN_COMBINE_SINGLE)
        return false;
    ret->combine = (enum kiln_combine)combine;
    text = equals + 1;
    return read_steps(&text, 2, &ret->donors) && !*text && ret->donors <= KILN_COMBINE_MAX;
}

/* "=N" or "@SIGMA" behind the word of a start. */
static bool read_start(const char *text, struct kiln_mode *ret)
{
    if (*text == '=') {
        text++;
        ret->kind = KILN_MODE_START_STEP;
        return read_steps(&text, 0, &ret->step) && ret->step < KILN_STEPS_MAX &&
               (!*text || (ret->reused && read_combined(text, ret)));
    }
    ret->kind = KILN_MODE_START_SIGMA;
    return *text == '@' && read_sigma(text + 1, &ret->sigma);
}

/* Behind the steps of a coarse run: its hand-over and its donor, to the end of the text. */
static bool read_coarse_rest(const char *text, struct kiln_mode *ret)
{
    if (*text == '@') {
        text++;
        if (!read_part(&text, &ret->sigma) || !(ret->sigma < 1))
            return false;
    }
    if (!*text)
        return true;
    ret->reused = true;
    if (strncmp(text, COARSE_DONOR, strlen(COARSE_DONOR)) != 0)
        return false;
    text += strlen(COARSE_DONOR);
    return read_steps(&text, 1, &ret->step) && ret->step < ret->small &&
           (!*text || read_combined(text, ret));
}

static bool read_plain(const char *text, struct kiln_mode *ret)
{
    *ret = (struct kiln_mode){.kind = KILN_MODE_EXACT};
    if (!*text)
        return true;
    if (strncmp(text, "coarse=", 7) == 0) {
        text += 7;
        ret->kind = KILN_MODE_COARSE_AUTO;
        if (strcmp(text, "auto") == 0)
            return true;
        return read_levels(&text, ret) && read_coarse_rest(text, ret);
    }
    const size_t len = strcspn(text, "=@");
    for (int way = 0; way < 4; way++) {
        ret->masked = way == 1;
        ret->edited = way == 2;
        ret->reused = way == 3;
        const char *word = start_word(ret);
        if (strlen(word) == len && memcmp(text, word, len) == 0)
            return read_start(text + len, ret) &&
                   !(ret->reused && (ret->kind != KILN_MODE_START_STEP || ret->step == 0));
    }
    return false;
}

/* A mode, then its variety. */
static bool read_mode(const char *text, struct kiln_mode *ret)
{
    char plain[KILN_MODE_MAX];
    const char *variety = strstr(text, VARIETY);
    const size_t len = variety ? (size_t)(variety - text) : strlen(text);
    double amount = 0;
    if (len >= sizeof plain || (variety && len > 0 && variety[-1] != ','))
        return false;
    snprintf(plain, sizeof plain, "%.*s", (int)(variety && len > 0 ? len - 1 : len), text);
    if (variety && !read_sigma(variety + strlen(VARIETY), &amount))
        return false;
    if (!read_plain(plain, ret))
        return false;
    ret->variety = amount;
    return true;
}

bool kiln_mode_parse(const char *text, struct kiln_mode *ret)
{
    char again[KILN_MODE_MAX];
    if (!read_mode(text, ret))
        return false;
    kiln_mode_text(ret, again);
    return strcmp(again, text) == 0; /* so that one mode has one text */
}

bool kiln_mode_of_strength(double strength, uint32_t steps, struct kiln_mode *ret)
{
    if (!(strength > 0 && strength <= 1))
        return false;
    const double init = fmin(steps * strength, steps);
    *ret = (struct kiln_mode){.kind = KILN_MODE_START_STEP, .step = (uint32_t)(steps - init)};
    return ret->step < steps;
}

double kiln_mode_strength(uint32_t step, uint32_t steps)
{
    const double most = (double)(steps - step) / steps;
    struct kiln_mode mode;
    /* The largest of so many decimals; where steps * strength rounds up to the step before, the one
     * below. */
    for (double scale = 1; scale <= 1e4; scale *= 10)
        for (int less = 0; less < 2; less++) {
            const double strength = (floor(most * scale + 1e-9) - less) / scale;
            if (kiln_mode_of_strength(strength, steps, &mode) && mode.step == step)
                return strength;
        }
    return most; /* not reached: two steps of KILN_STEPS_MAX are 0.02 apart */
}

uint32_t kiln_mode_minor(const struct kiln_mode *mode)
{
    if (mode->middle > 0)
        return KILN_MODE_MINOR_MIDDLE;
    if (mode->variety > 0 || mode->masked)
        return KILN_MODE_MINOR_VARIETY;
    if (mode->edited)
        return KILN_MODE_MINOR_EDITS;
    const bool any = mode->kind == KILN_MODE_EXACT || mode->kind == KILN_MODE_COARSE_AUTO;
    return any ? 0 : KILN_MODE_MINOR_STARTS;
}

bool kiln_mode_starts(const struct kiln_mode *mode)
{
    return mode->kind == KILN_MODE_START_STEP || mode->kind == KILN_MODE_START_SIGMA;
}

/* The steps of a start; sigma = 3u / (1 + 2u) at the usual shift of 3. */
static double steps_left(const struct kiln_mode *mode, uint32_t steps)
{
    const double u = mode->sigma / (3 - 2 * mode->sigma);
    const double left = mode->kind == KILN_MODE_START_STEP
                            ? (double)steps - (mode->step < steps ? mode->step : steps)
                            : ceil(steps * u - SIGMA_SLACK * steps);
    return left > 1 ? left : 1;
}

struct kiln_mode kiln_mode_begun_at(const struct kiln_mode *own, uint32_t step, bool small)
{
    struct kiln_mode mode = {.kind = KILN_MODE_START_STEP};
    if (small)
        mode = *own;
    mode.step = step;
    mode.reused = true;
    return mode;
}

double kiln_mode_begun_forwards(const struct kiln_mode *mode, uint32_t begun)
{
    const uint32_t small = begun < mode->small ? begun : mode->small;
    const uint32_t middle = begun - small < mode->middle ? begun - small : mode->middle;
    const double small_cost = mode->middle > 0 ? HALF_COST * HALF_COST : HALF_COST;
    return small_cost * small + HALF_COST * middle + (begun - small - middle);
}

double kiln_mode_forwards(const struct kiln_mode *mode, uint32_t steps)
{
    switch (mode->kind) {
    case KILN_MODE_COARSE:
        return kiln_mode_begun_forwards(mode, mode->small + mode->middle + mode->full) -
               (mode->reused ? kiln_mode_begun_forwards(mode, mode->step) : 0);
    case KILN_MODE_START_STEP:
    case KILN_MODE_START_SIGMA:
        return steps_left(mode, steps) + (mode->edited ? KILN_EDIT_FORWARDS : 0);
    case KILN_MODE_EXACT:
    case KILN_MODE_COARSE_AUTO:
        break;
    }
    return steps;
}

const char *kiln_mode_saved_steps(const struct kiln_mode *mode, double own, double forwards,
                                  char *out, size_t size)
{
    if (mode->kind == KILN_MODE_COARSE && mode->reused)
        snprintf(out, size, "%u of %u small steps (%.3g of %.3g full ones)", mode->step,
                 mode->small, own - forwards, own);
    else
        snprintf(out, size, "%.3g of %.3g steps", own - forwards, own);
    return out;
}

const char *kiln_mode_saving(const char *mode, double sigma, double own, double forwards, char *out,
                             size_t size)
{
    struct kiln_mode rendered;
    char steps[64];
    if (!kiln_mode_parse(mode, &rendered))
        rendered = (struct kiln_mode){0};
    kiln_mode_saved_steps(&rendered, own, forwards, steps, sizeof steps);
    if (sigma > 0)
        snprintf(out, size, "at sigma %.4g, saved %s", sigma, steps);
    else
        snprintf(out, size, "saved %s", steps);
    return out;
}
