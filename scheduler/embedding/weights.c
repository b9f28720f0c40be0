/* weights.c - the fitted weights of an embedder, from and to a file beside it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/embedding/model.h"
#include "storage/formats/replace.h"

#define WEIGHT_MAX 100000
#define NOTHING_MOST (-848) /* p below 0.3: a LoRA without evidence is not chosen */

struct key {
    const char *name;
    size_t at;
    int sign; /* what the weight must not be */
};
#define KEY(name, sign)                                                                            \
    {                                                                                              \
#name, offsetof(struct kiln_meaning_weights, name), sign                                   \
    }
static const struct key keys[] = {KEY(bias, 0), KEY(b, -1), KEY(c, -1), KEY(m, -1), KEY(x, 1)};
#define KEYS (sizeof keys / sizeof *keys)

int kiln_embedding_weights_check(const struct kiln_meaning_weights *w, const char *where,
                                 struct kiln_error *err)
{
    for (size_t i = 0; i < KEYS; i++) {
        const int value = *(const int *)((const char *)w + keys[i].at);
        if (abs(value) > WEIGHT_MAX || value * keys[i].sign > 0)
            return kiln_fail(err, KILN_CONFIG, "%s: the weight %s is %d; it must be from %d to %d",
                             where, keys[i].name, value, keys[i].sign < 0 ? 0 : -WEIGHT_MAX,
                             keys[i].sign > 0 ? 0 : WEIGHT_MAX);
    }
    if (w->bias > NOTHING_MOST)
        return kiln_fail(err, KILN_CONFIG,
                         "%s: the weight bias is %d; it must be at most %d, so that no evidence "
                         "means no LoRA",
                         where, w->bias, NOTHING_MOST);
    return 0;
}

int kiln_embedding_weights_read(const char *text, size_t len, const char *where, const char *recipe,
                                struct kiln_meaning_weights *ret, struct kiln_error *err)
{
    json_error_t at;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);
    const json_t *weights = json_object_get(root, "weights");
    const char *of = json_string_value(json_object_get(root, "embedder"));
    const json_t *router = json_object_get(root, "router");
    struct kiln_meaning_weights w = {0};
    int rc = 0;
    if (!root)
        rc = kiln_fail(err, KILN_CONFIG, "%s, line %d: %s", where, at.line, at.text);
    else if (!of || !json_is_integer(router) || !json_is_object(weights))
        rc = kiln_fail(err, KILN_CONFIG, "%s: it needs \"embedder\", \"router\" and \"weights\"",
                       where);
    else if (strcmp(of, recipe) != 0)
        rc = kiln_fail(err, KILN_CONFIG,
                       "%s: the weights are for the embedder %.80s, and this is %s", where, of,
                       recipe);
    else if (json_integer_value(router) != KILN_ROUTER_ID)
        rc = kiln_fail(err, KILN_CONFIG,
                       "%s: the weights are for router %lld, and this is router %d", where,
                       (long long)json_integer_value(router), KILN_ROUTER_ID);
    for (size_t i = 0; i < KEYS && !rc; i++) {
        const json_t *value = json_object_get(weights, keys[i].name);
        const json_int_t number = json_integer_value(value);
        if (!json_is_integer(value) || number > WEIGHT_MAX || number < -WEIGHT_MAX)
            rc = kiln_fail(err, KILN_CONFIG,
                           "%s: the weight %s must be a whole number from %d to %d", where,
                           keys[i].name, -WEIGHT_MAX, WEIGHT_MAX);
        else
            *(int *)((char *)&w + keys[i].at) = (int)number;
    }
    json_decref(root);
    rc = rc ? rc : kiln_embedding_weights_check(&w, where, err);
    if (rc == 0)
        *ret = w;
    return rc;
}

int kiln_embedding_weights_write(const char *path, const char *recipe,
                                 const struct kiln_meaning_weights *weights, struct kiln_error *err)
{
    json_t *list = json_object();
    for (size_t i = 0; i < KEYS; i++)
        (void)json_object_set_new(list, keys[i].name,
                                  json_integer(*(const int *)((const char *)weights + keys[i].at)));
    json_t *root =
        json_pack("{s:s, s:i, s:o}", "embedder", recipe, "router", KILN_ROUTER_ID, "weights", list);
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    int rc = text ? kiln_replace_named(path, text, strlen(text), 0666, err)
                  : kiln_fail(err, KILN_NO_MEMORY, "no memory to write %s", path);
    free(text);
    json_decref(root);
    return rc;
}
