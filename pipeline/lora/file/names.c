/* names.c - prefixes, endings and other names of modules; see names.h. */
#include "pipeline/lora/file/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Removed repeatedly: PEFT adds its own before a trainer's. */
static const char *const prefixes[] = {
    "base_model.model.", "model.diffusion_model.", "diffusion_model.", "transformer.",
    "lora_unet_",        "lora_transformer_",      "lycoris_",
};

static const struct {
    const char *text;
    enum kiln_lora_role role;
} endings[] = {
    {".lora_A.weight", KILN_LORA_A},
    {".lora_B.weight", KILN_LORA_B},
    {".lora_A.default.weight", KILN_LORA_A},
    {".lora_B.default.weight", KILN_LORA_B},
    {".lora_down.weight", KILN_LORA_A},
    {".lora_up.weight", KILN_LORA_B},
    {".lora.down.weight", KILN_LORA_A},
    {".lora.up.weight", KILN_LORA_B},
    {".alpha", KILN_LORA_ALPHA},
};

/* Parts of keys by which other kinds of adapters are recognised. */
static const struct {
    const char *part, *kind;
} refused[] = {
    {".lokr_", "LoKr (LyCORIS)"},
    {".hada_", "LoHa (LyCORIS)"},
    {".oft_", "OFT (LyCORIS)"},
    {".boft_", "BOFT (LyCORIS)"},
    {".lora_mid.", "a LoCon with a core tensor"},
    {"dora_scale", "DoRA"},
    {"lora_magnitude_vector", "DoRA"},
    {".diff_b", "a full difference"},
    {".set_weight", "a replaced weight"},
    {"t_embedder_2.", "a TwinFlow time embedder"},
    {"lora_te_", "a LoRA of the text encoder"},
    {"lora_te1_", "a LoRA of the text encoder"},
    {"text_encoder.", "a LoRA of the text encoder"},
};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

const char *kiln_lora_refused_kind(const char *key)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strstr(key, refused[i].part))
            return refused[i].kind;
    return ends_with(key, ".diff") ? "a full difference" : NULL;
}

static const char *skip_prefixes(const char *key)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(key, prefixes[i], strlen(prefixes[i])) == 0)
            return skip_prefixes(key + strlen(prefixes[i]));
    return key;
}

static void flatten(char *text)
{
    for (; *text; text++)
        if (*text == '.')
            *text = '_';
}

bool kiln_lora_parse_key(const char *key, enum kiln_lora_role *ret_role, char *flat)
{
    key = skip_prefixes(key);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (!ends_with(key, endings[i].text))
            continue;
        snprintf(flat, KILN_ST_NAME_MAX + 1, "%.*s", (int)(strlen(key) - strlen(endings[i].text)),
                 key);
        flatten(flat);
        *ret_role = endings[i].role;
        return true;
    }
    return false;
}

/* --- the table -------------------------------------------------------------------------------- */

static int by_flat(const void *a, const void *b)
{
    return strcmp(((const struct kiln_lora_target *)a)->flat,
                  ((const struct kiln_lora_target *)b)->flat);
}

static bool find_module(const struct kiln_lora_module *modules, size_t count, const char *name,
                        size_t *ret)
{
    for (*ret = 0; *ret < count; ++*ret)
        if (strcmp(modules[*ret].name, name) == 0)
            return true;
    return false;
}

/* Adds text[0 .. keep) + tail as a name of the modules; false if memory is short. */
static bool add(struct kiln_lora_names *names, const char *text, size_t keep, const char *tail,
                struct kiln_lora_target target)
{
    if (asprintf(&target.flat, "%.*s%s", (int)keep, text, tail) < 0)
        return false;
    flatten(target.flat);
    names->targets[names->count++] = target;
    return true;
}

/* The names that repacks give to module i: ComfyUI's out, qkv, x_embedder and final_layer. */
static bool add_aliases(struct kiln_lora_names *names, const struct kiln_lora_module *modules,
                        size_t count, size_t i)
{
    static const char x_embedder[] = "all_x_embedder.2-1", final[] = "all_final_layer.2-1.";
    const char *name = modules[i].name;
    size_t len = strlen(name);
    struct kiln_lora_target t = {.alias = true, .count = 1, .modules = {i}};
    if (ends_with(name, ".to_out.0"))
        return add(names, name, len - strlen("to_out.0"), "out", t);
    if (strcmp(name, x_embedder) == 0)
        return add(names, "", 0, "x_embedder", t);
    if (strncmp(name, final, strlen(final)) == 0) {
        char text[KILN_ST_NAME_MAX + 1];
        snprintf(text, sizeof text, "final_layer.%s", name + strlen(final));
        return add(names, "", 0, text, t);
    }
    if (ends_with(name, ".to_q")) {
        char sibling[KILN_ST_NAME_MAX + 1];
        snprintf(sibling, sizeof sibling, "%.*sk", (int)(len - 1), name);
        bool whole = find_module(modules, count, sibling, &t.modules[1]);
        snprintf(sibling, sizeof sibling, "%.*sv", (int)(len - 1), name);
        whole = whole && find_module(modules, count, sibling, &t.modules[2]);
        t.count = 3;
        return !whole || add(names, name, len - strlen("to_q"), "qkv", t);
    }
    return true;
}

int kiln_lora_names_init(struct kiln_lora_names *names, const struct kiln_lora_module *modules,
                         size_t count, struct kiln_error *err)
{
    *names = (struct kiln_lora_names){calloc(2 * count + 1, sizeof *names->targets), 0};
    bool ok = names->targets != NULL;
    for (size_t i = 0; i < count && ok; i++) {
        struct kiln_lora_target own = {.count = 1, .modules = {i}};
        ok = add(names, modules[i].name, strlen(modules[i].name), "", own) &&
             add_aliases(names, modules, count, i);
    }
    if (!ok) {
        kiln_lora_names_release(names);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of %zu modules", count);
    }
    qsort(names->targets, names->count, sizeof *names->targets, by_flat);
    for (size_t i = 1; i < names->count; i++) {
        if (strcmp(names->targets[i - 1].flat, names->targets[i].flat) == 0) {
            int rc = kiln_fail(err, KILN_INTERNAL, "two modules of the model are both called %s",
                               names->targets[i].flat);
            kiln_lora_names_release(names);
            return rc;
        }
    }
    return 0;
}

void kiln_lora_names_release(struct kiln_lora_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->targets[i].flat);
    free(names->targets);
    *names = (struct kiln_lora_names){0};
}

const struct kiln_lora_target *kiln_lora_names_find(const struct kiln_lora_names *names,
                                                    const char *flat)
{
    struct kiln_lora_target key = {.flat = (char *)flat};
    return names->count == 0 ? NULL
                             : bsearch(&key, names->targets, names->count, sizeof key, by_flat);
}
