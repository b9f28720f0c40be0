/* classifier.c - see classifier.h. */
#include "scheduler/gallery/safety/classifier.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pipeline/embed/classify/classify.h"
#include "schemas/digest.h"
#include "storage/formats/pictures/webp.h"

#define PIXELS_MAX (4096u * 4096u) /* of a file that is looked at */
#define NAME_BYTES 40              /* of the directory, in a source */
#define LEVELS_TEXT_MAX 4096

struct kiln_safety_classifier {
    struct kiln_classifier *model;
    int level[KILN_CLASSIFY_LABELS_MAX];
    double certain;
    char source[NAME_BYTES + 32];
};

/* --- levels of labels ------------------------------------------------------------------------- */

/* Labels of published classifiers. */
static const struct {
    const char *label;
    int level;
} known[] = {
    {"normal", KILN_SAFETY_CLEAR},        {"sfw", KILN_SAFETY_CLEAR},
    {"safe", KILN_SAFETY_CLEAR},          {"clear", KILN_SAFETY_CLEAR},
    {"neutral", KILN_SAFETY_CLEAR},       {"drawing", KILN_SAFETY_CLEAR},
    {"drawings", KILN_SAFETY_CLEAR},      {"unsure", KILN_SAFETY_UNSURE},
    {"questionable", KILN_SAFETY_UNSURE}, {"sexy", KILN_SAFETY_MATURE},
    {"suggestive", KILN_SAFETY_MATURE},   {"mature", KILN_SAFETY_MATURE},
    {"nsfw", KILN_SAFETY_EXPLICIT},       {"unsafe", KILN_SAFETY_EXPLICIT},
    {"porn", KILN_SAFETY_EXPLICIT},       {"hentai", KILN_SAFETY_EXPLICIT},
    {"nude", KILN_SAFETY_EXPLICIT},       {"explicit", KILN_SAFETY_EXPLICIT},
};

static int level_by_label(const char *label)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(known[i].label, label) == 0)
            return known[i].level;
    return KILN_SAFETY_UNCHECKED;
}

static int level_by_name(const char *name)
{
    for (int i = 0; i < KILN_SAFETY_LEVELS; i++)
        if (strcmp(kiln_safety_level_names[i], name) == 0)
            return i;
    return KILN_SAFETY_UNCHECKED;
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    for (size_t len = strlen(text); len > 0 && isspace((unsigned char)text[len - 1]);)
        text[--len] = '\0';
    return text;
}

#define SETTING "gallery_classifier_levels"

/* "nsfw=explicit" */
static int apply_pair(char *pair, const char *const *label, int labels, int *level,
                      struct kiln_error *err)
{
    char *is = strrchr(pair, '=');
    if (!is)
        return kiln_fail(err, KILN_CONFIG, SETTING ": \"%.80s\" is not LABEL=LEVEL", pair);
    *is = '\0';
    const char *name = trim(pair), *value = trim(is + 1);
    const int is_level = level_by_name(value);
    if (is_level == KILN_SAFETY_UNCHECKED)
        return kiln_fail(err, KILN_CONFIG,
                         SETTING ": \"%.80s\" is not a level; there are: clear, unsure, mature, "
                                 "explicit",
                         value);
    for (int i = 0; i < labels; i++)
        if (strcmp(label[i], name) == 0) {
            level[i] = is_level;
            return 0;
        }
    return kiln_fail(err, KILN_CONFIG, SETTING ": the classifier has no label \"%.80s\"", name);
}

static int check_levels(const char *const *label, int labels, const int *level,
                        struct kiln_error *err)
{
    bool clear = false, marked = false;
    for (int i = 0; i < labels; i++) {
        if (level[i] == KILN_SAFETY_UNCHECKED)
            return kiln_fail(err, KILN_CONFIG,
                             "the classifier's label \"%s\" stands for no level: name one with "
                             "the setting " SETTING ", such as \"%s=explicit\"",
                             label[i], label[i]);
        clear = clear || level[i] == KILN_SAFETY_CLEAR;
        marked = marked || level[i] > KILN_SAFETY_CLEAR;
    }
    return clear && marked ? 0
                           : kiln_fail(err, KILN_CONFIG,
                                       "all labels of the classifier stand for %s: see the "
                                       "setting " SETTING,
                                       clear ? "clear" : "levels above clear");
}

int kiln_safety_levels_of(const char *const *label, int labels, const char *setting, int *level,
                          struct kiln_error *err)
{
    char text[LEVELS_TEXT_MAX], *rest = text, *pair;
    int rc = 0;
    if (snprintf(text, sizeof text, "%s", setting) >= (int)sizeof text)
        return kiln_fail(err, KILN_CONFIG, SETTING ": longer than %d bytes", LEVELS_TEXT_MAX);
    for (int i = 0; i < labels; i++)
        level[i] = level_by_label(label[i]);
    while (rc == 0 && (pair = strsep(&rest, ",")))
        if (*trim(pair))
            rc = apply_pair(pair, label, labels, level, err);
    return rc ? rc : check_levels(label, labels, level, err);
}

/* --- one picture ------------------------------------------------------------------------------ */

struct kiln_classified kiln_safety_decide(const double *share, const int *level, int labels,
                                          double certain)
{
    double from[KILN_SAFETY_LEVELS] = {0}; /* share of the level and of those above */
    for (int i = 0; i < labels; i++)
        for (int at = 0; at <= level[i]; at++)
            from[at] += share[i];
    struct kiln_classified said = {KILN_SAFETY_CLEAR, from[KILN_SAFETY_UNSURE]};
    said.score = said.score > 1 ? 1 : said.score;
    for (int at = KILN_SAFETY_LEVELS - 1; at > KILN_SAFETY_CLEAR; at--)
        if (from[at] >= certain) {
            said.level = at;
            return said;
        }
    if (said.score > 1 - certain)
        said.level = KILN_SAFETY_UNSURE;
    return said;
}

int kiln_safety_classify(struct kiln_safety_classifier *c, const void *file, size_t size,
                         struct kiln_classified *ret, struct kiln_error *err)
{
    double share[KILN_CLASSIFY_LABELS_MAX];
    uint32_t width, height;
    uint8_t *rgb;
    int rc = kiln_webp_decode(file, size, PIXELS_MAX, &rgb, &width, &height, err);
    if (rc)
        return rc;
    rc = kiln_classifier_run(c->model, rgb, width, height, share, err);
    free(rgb);
    if (rc == 0)
        *ret =
            kiln_safety_decide(share, c->level, kiln_classifier_info(c->model)->labels, c->certain);
    return rc;
}

/* --- opening ---------------------------------------------------------------------------------- */

static void name_source(struct kiln_safety_classifier *c, const char *dir)
{
    char text[2 * KILN_CLASSIFY_LABELS_MAX + 64], digits[9], name[NAME_BYTES + 1];
    uint8_t digest[KILN_SHA256_SIZE];
    const struct kiln_classifier_info *info = kiln_classifier_info(c->model);
    size_t end = strlen(dir);
    int len = snprintf(text, sizeof text, "%s %.6f ", info->hash, c->certain);
    for (int i = 0; i < info->labels; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, "%d", c->level[i]);
    kiln_sha256(text, (size_t)len, digest);
    kiln_hex(digest, 4, digits);
    while (end > 0 && dir[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && dir[begin - 1] != '/')
        begin--;
    snprintf(name, sizeof name, "%.*s", (int)(end - begin), dir + begin);
    for (char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            *at = '-';
    snprintf(c->source, sizeof c->source, "model:%s:%s", *name ? name : "classifier", digits);
}

int kiln_safety_classifier_open(const struct kiln_config *config, const char *library,
                                struct kiln_safety_classifier **ret, struct kiln_error *err)
{
    const char *dir = kiln_config_text(config, KILN_KEY_GALLERY_CLASSIFIER);
    if (!*dir)
        return kiln_fail(err, KILN_CONFIG,
                         "no classifier is set, and Kiln ships none: name a directory in the "
                         "layout of ViTForImageClassification with gallery_classifier");
    struct kiln_safety_classifier *c = calloc(1, sizeof *c);
    if (!c)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a classifier");
    c->certain = kiln_config_number(config, KILN_KEY_GALLERY_CLASSIFIER_CERTAIN);
    int rc = kiln_classifier_open(library, dir, &c->model, err);
    if (rc == 0) {
        const struct kiln_classifier_info *info = kiln_classifier_info(c->model);
        rc = kiln_safety_levels_of(info->label, info->labels,
                                   kiln_config_text(config, KILN_KEY_GALLERY_CLASSIFIER_LEVELS),
                                   c->level, err);
    }
    if (rc) {
        kiln_safety_classifier_close(c);
        return rc;
    }
    name_source(c, dir);
    *ret = c;
    return 0;
}

void kiln_safety_classifier_close(struct kiln_safety_classifier *c)
{
    if (!c)
        return;
    kiln_classifier_close(c->model);
    free(c);
}

const char *kiln_safety_classifier_source(const struct kiln_safety_classifier *c)
{
    return c->source;
}
