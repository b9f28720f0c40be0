/* options.c - see options.h. */
#include "worker/verbs/options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schemas/job/mode.h"
#include "schemas/limits.h"
#include "schemas/text/utf8.h"
#include "worker/engine/renderer.h"

#define FIRST_CODE 256 /* what getopt returns for the first row; below are letters */

int kiln_take_text(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    (void)err;
    *(const char **)option->to = value;
    return 0;
}

int kiln_take_prompt(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    const size_t len = strlen(value);
    size_t bad;
    if (len > KILN_PROMPT_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "--%s: %zu bytes; the limit is %d", option->name, len,
                         KILN_PROMPT_MAX);
    if (!kiln_utf8_valid(value, len, &bad))
        return kiln_fail(err, KILN_BAD_INPUT, "--%s: not UTF-8 at byte %zu", option->name, bad);
    return kiln_take_text(option, value, err);
}

int kiln_take_whole(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    char *end;
    errno = 0;
    uint64_t number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 || number < option->min ||
        number > option->max)
        return kiln_fail(
            err, KILN_BAD_INPUT, "%s%s \"%s\": expected a whole number, %" PRIu64 " to %" PRIu64,
            option->name[1] ? "--" : "-", option->name, value, option->min, option->max);
    *(uint64_t *)option->to = number;
    return 0;
}

int kiln_take_small(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    uint64_t number;
    struct kiln_verb_option whole = *option;
    whole.to = &number;
    int code = kiln_take_whole(&whole, value, err);
    if (code == 0)
        *(int32_t *)option->to = (int32_t)number;
    return code;
}

static int read_number(const char *name, const char *value, double min, double max, double *ret,
                       struct kiln_error *err)
{
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end != '\0' || !isfinite(number) || number < min || number > max)
        return kiln_fail(err, KILN_BAD_INPUT, "--%s \"%s\": expected a number, %g to %g", name,
                         value, min, max);
    *ret = number;
    return 0;
}

int kiln_take_number(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    return read_number(option->name, value, (double)option->min, (double)option->max, option->to,
                       err);
}

int kiln_take_side(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    struct kiln_verb_option side = *option;
    int32_t pixels;
    side.to = &pixels;
    side.min = KILN_SIDE_MIN;
    side.max = KILN_SIDE_MAX;
    int code = kiln_take_small(&side, value, err);
    if (code == 0 && pixels % KILN_SIDE_STEP != 0)
        code = kiln_fail(err, KILN_BAD_INPUT, "--%s %s: not a multiple of %d", option->name, value,
                         KILN_SIDE_STEP);
    if (code == 0)
        *(int32_t *)option->to = pixels;
    return code;
}

int kiln_take_device(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    return kiln_device_parse(value, option->to, err);
}

int kiln_take_dtype(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    return kiln_dtype_parse(value, option->to, err);
}

int kiln_take_coarse(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    struct kiln_mode *mode = option->to;
    if (kiln_mode_parse_coarse(value, mode) && (mode->kind != KILN_MODE_COARSE_AUTO || option->max))
        return 0;
    return kiln_fail(err, KILN_BAD_INPUT,
                     "--%s \"%s\": expected off%s, or S+L such as 4+3: S steps at about half the "
                     "side, then L; or S+M+L: S at a quarter, M at half, then L",
                     option->name, value, option->max ? ", auto" : "");
}

int kiln_take_lora(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    char *colon = strrchr(value, ':');
    double weight = 1;
    struct kiln_error no_number;
    if (*option->list >= option->most)
        return kiln_fail(err, KILN_BAD_INPUT, "--lora: at most %d", option->most);
    if (colon) {
        const bool whole = access(value, F_OK) == 0;
        *colon = '\0';
        const bool front = access(value, F_OK) == 0;
        const int code = read_number(option->name, colon + 1, -KILN_LORA_SCALE_MAX,
                                     KILN_LORA_SCALE_MAX, &weight, &no_number);
        if (code != 0 && front && !whole)
            return kiln_fail(err, code,
                             "--lora %s: its strength \"%s\" is not a number from %g to %g", value,
                             colon + 1, -KILN_LORA_SCALE_MAX, KILN_LORA_SCALE_MAX);
        if (code != 0 || (whole && !front)) { /* the colon is a part of the name */
            *colon = ':';
            weight = 1;
        }
    }
    ((DiffusionZLora *)option->to)[(*option->list)++] = (DiffusionZLora){value, (float)weight};
    return 0;
}

int kiln_take_loras(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    int code = 0;
    *option->list = 0;
    for (char *part = strcmp(value, "none") == 0 ? NULL : value; part && code == 0;) {
        char *plus = strchr(part, '+');
        if (plus)
            *plus = '\0';
        code = kiln_take_lora(option, part, err);
        part = plus ? plus + 1 : NULL;
    }
    return code;
}

/* One value, or for an option with a size a list of them. */
static int take(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    struct kiln_verb_option one = *option;
    int code = 0;
    if (!option->take) {
        *(bool *)option->to = true;
        return 0;
    }
    if (!option->size)
        return option->take(option, value, err);
    *option->list = 0;
    for (char *part = value; part && code == 0; one.to = (char *)one.to + option->size) {
        char *comma = strchr(part, ',');
        if (comma)
            *comma = '\0';
        if ((*option->list)++ == option->most)
            return kiln_fail(err, KILN_BAD_INPUT, "--%s: at most %d", option->name, option->most);
        code = option->take(&one, part, err);
        part = comma ? comma + 1 : NULL;
    }
    return code;
}

int kiln_verb_options(const char *verb, int argc, char **argv, const struct kiln_verb_option *table,
                      bool *ret_help, struct kiln_error *err)
{
    static char name[64]; /* for the messages of getopt */
    struct option known[KILN_VERB_OPTIONS_MAX + 2] = {0};
    char letters[2 * KILN_VERB_OPTIONS_MAX + 2] = "h";
    int count = 0, longer = 0, c, code = 0;
    for (; table[count].name; count++)
        if (table[count].name[1] == '\0')
            snprintf(letters + strlen(letters), 3, "%c:", table[count].name[0]);
        else
            known[longer++] = (struct option){table[count].name,
                                              table[count].take ? required_argument : no_argument,
                                              NULL, FIRST_CODE + count};
    known[longer] = (struct option){"help", no_argument, NULL, 'h'};
    snprintf(name, sizeof name, "kiln %s", verb);
    argv[0] = name;
    *ret_help = false;
    while (code == 0 && (c = getopt_long(argc, argv, letters, known, NULL)) != -1) {
        if (c == 'h') {
            *ret_help = true;
            return 0;
        }
        int at = c - FIRST_CODE;
        for (int i = 0; at < 0 && i < count; i++)
            if (table[i].name[0] == c && table[i].name[1] == '\0')
                at = i;
        code = at < 0 ? kiln_fail(err, KILN_BAD_INPUT, "`kiln %s --help` shows the options", verb)
                      : take(&table[at], optarg, err);
    }
    if (code == 0 && optind < argc)
        code = kiln_fail(err, KILN_BAD_INPUT, "unexpected argument \"%s\"", argv[optind]);
    return code;
}
