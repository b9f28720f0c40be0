/* labels.c - labels.json; see labels.h. */
#include "pipeline/bench/labels.h"

#include <string.h>

#include "pipeline/model/json.h"

static void read_names(struct kiln_model_json *c, const char *key, struct kiln_label_list *list)
{
    const json_t *names = json_object_get(c->root, key), *name;
    size_t i, count = json_array_size(names);
    if (c->error.code)
        return;
    if (count == 0 || count > KILN_LABELS_MAX) {
        kiln_model_refuse(c, KILN_BAD_INPUT, "%s must be a list of 1 to %d names", key,
                          KILN_LABELS_MAX);
        return;
    }
    json_array_foreach(names, i, name)
    {
        size_t len = json_string_length(name);
        if (len == 0 || len >= KILN_LABEL_MAX) {
            kiln_model_refuse(c, KILN_BAD_INPUT, "%s[%zu] must be a text of 1 to %d bytes", key, i,
                              KILN_LABEL_MAX - 1);
            return;
        }
        memcpy(list->names[i], json_string_value(name), len + 1);
    }
    list->count = (int)count;
}

/* A required share of a side, or a probability. */
static double read_share(struct kiln_model_json *c, const char *key)
{
    double value = kiln_model_real_or(c, key, -1);
    if (!c->error.code && !(value >= 0 && value <= 1))
        kiln_model_refuse(c, KILN_BAD_INPUT, "%s must be a number from 0 to 1", key);
    return value;
}

int kiln_judge_labels_read(const char *dir, struct kiln_judge_labels *ret, struct kiln_error *err)
{
    struct kiln_judge_labels labels = {0};
    struct kiln_model_json c = {0};
    kiln_model_json_open(&c, dir, "labels.json");
    read_names(&c, "shapes", &labels.shapes);
    read_names(&c, "colours", &labels.colours);
    read_names(&c, "sizes", &labels.sizes);
    read_names(&c, "backgrounds", &labels.backgrounds);
    read_names(&c, "styles", &labels.styles);
    labels.heat = read_share(&c, "heat");
    labels.zone_low = read_share(&c, "zone_low");
    labels.zone_high = read_share(&c, "zone_high");
    labels.relation_gap = read_share(&c, "relation_gap");
    labels.side = kiln_model_int(&c, "side", 64, 1024);
    labels.hidden = kiln_model_int(&c, "hidden", 1, 4096);
    labels.stem_count =
        kiln_model_ints(&c, "stem_channels", 1, 4096, labels.stem_channels, KILN_JUDGE_LAYERS_MAX);
    int strides =
        kiln_model_ints(&c, "stem_strides", 1, 2, labels.stem_strides, KILN_JUDGE_LAYERS_MAX);
    labels.body_count =
        kiln_model_ints(&c, "body_dilations", 1, 16, labels.body_dilations, KILN_JUDGE_LAYERS_MAX);
    if (!c.error.code && (strides != labels.stem_count || strides == 0))
        kiln_model_refuse(&c, KILN_BAD_INPUT, "stem_channels and stem_strides differ in length");
    int code = kiln_model_json_close(&c, err);
    if (!code)
        *ret = labels;
    return code;
}

int kiln_label_find(const struct kiln_label_list *list, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->names[i], name) == 0)
            return i;
    return -1;
}
