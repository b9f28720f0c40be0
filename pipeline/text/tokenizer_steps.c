/* tokenizer_steps.c - accepts the steps of a tokenizer.json that Kiln runs, and steps that change
 * no id; refuses all others by name.
 *
 * Libraries write the same tokenizer in other ways from release to release: steps in a Sequence of
 * one, a template that adds nothing, options at their defaults.  Such files must load.  A step that
 * was ignored silently would give other ids, and other pictures.
 */
#include "pipeline/text/tokenizer_steps.h"

#include <string.h>

static const char *type_of(const json_t *step)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    return type ? type : "without a type";
}

static bool is_type(const json_t *step, const char *type)
{
    return strcmp(type_of(step), type) == 0;
}

/* Absent, null, false, "" or zero: the option is off. */
static bool is_off(const json_t *step, const char *key)
{
    const json_t *v = json_object_get(step, key);
    return !v || json_is_null(v) || json_is_false(v) ||
           (json_is_string(v) && json_string_length(v) == 0) ||
           (json_is_number(v) && json_number_value(v) == 0);
}

static int refuse(const struct kiln_tokenizer_files *f, const char *part, const char *what,
                  struct kiln_error *err)
{
    return kiln_fail(err, KILN_UNSUPPORTED, "%s: %s \"%.64s\" is not supported", f->path, part,
                     what);
}

/* --- runs of steps ---------------------------------------------------------------------------- */

/* One kind of step: how a Sequence of them calls its list, and what one step does to the files. */
struct step_kind {
    const char *name, *list;
    int (*take)(struct kiln_tokenizer_files *f, const json_t *step, struct kiln_error *err);
};

/* Calls the kind's take for each step, in order; an absent step or empty Sequence has none. */
static int take_steps(struct kiln_tokenizer_files *f, const struct step_kind *kind,
                      const json_t *step, struct kiln_error *err)
{
    if (!step || json_is_null(step))
        return 0;
    if (!is_type(step, "Sequence"))
        return kind->take(f, step, err);
    const json_t *inner, *steps = json_object_get(step, kind->list);
    size_t i;
    int rc = json_is_array(steps) ? 0 : refuse(f, kind->name, "Sequence without a list", err);
    json_array_foreach(steps, i, inner)
    {
        if (!rc)
            rc = take_steps(f, kind, inner, err);
    }
    return rc;
}

/* --- the steps -------------------------------------------------------------------------------- */

static int take_normalizer(struct kiln_tokenizer_files *f, const json_t *step,
                           struct kiln_error *err)
{
    f->nfc = is_type(step, "NFC"); /* twice is once */
    return f->nfc ? 0 : refuse(f, "normalizer", type_of(step), err);
}

/* Split by a regular expression, then ByteLevel without its own. */
static int take_pre_tokenizer(struct kiln_tokenizer_files *f, const json_t *step,
                              struct kiln_error *err)
{
    if (!f->pattern && is_type(step, "Split")) {
        const char *behavior = json_string_value(json_object_get(step, "behavior"));
        if (!behavior || strcmp(behavior, "Isolated") != 0)
            return refuse(f, "split behavior", behavior ? behavior : "", err);
        if (!is_off(step, "invert"))
            return refuse(f, "option", "invert", err);
        f->pattern = json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
        return f->pattern ? 0 : refuse(f, "split pattern", "it is not a Regex", err);
    }
    if (!f->pattern || f->bytes || !is_type(step, "ByteLevel"))
        return refuse(f, "pre_tokenizer", type_of(step), err);
    if (!is_off(step, "add_prefix_space"))
        return refuse(f, "option", "add_prefix_space", err);
    /* Files of before this option split, so an absent one is on. */
    if (!json_is_false(json_object_get(step, "use_regex")))
        return refuse(f, "option", "use_regex", err);
    f->bytes = true;
    return 0;
}

/* What runs after the ids are there: ByteLevel moves offsets alone, and a template that is the text
 * alone, {"Sequence": {"id": "A"}}, adds nothing. */
static int take_post_processor(struct kiln_tokenizer_files *f, const json_t *step,
                               struct kiln_error *err)
{
    if (is_type(step, "ByteLevel"))
        return 0;
    if (!is_type(step, "TemplateProcessing"))
        return refuse(f, "post_processor", type_of(step), err);
    const json_t *piece, *single = json_object_get(step, "single");
    const json_t *text = json_object_get(json_array_get(single, 0), "Sequence");
    const char *id = json_string_value(json_object_get(text, "id"));
    size_t i;
    if (json_array_size(single) == 1 && id && strcmp(id, "A") == 0)
        return 0;
    json_array_foreach(single, i, piece)
    {
        const char *token =
            json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
        if (token)
            return refuse(f, "post_processor \"TemplateProcessing\" that adds", token, err);
    }
    return refuse(f, "post_processor", "TemplateProcessing that is not the text alone", err);
}

/* --- the model and the rest ------------------------------------------------------------------- */

/* unk_token, fuse_unk and byte_fallback are for characters without a token, of which there are
 * none: the tokenizer demands a token for each byte.  Old files leave the type out. */
static int take_model(struct kiln_tokenizer_files *f, const json_t *model, struct kiln_error *err)
{
    static const char *const options[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix", "ignore_merges"};
    f->vocab = json_object_get(model, "vocab");
    f->merges = json_object_get(model, "merges");
    const bool untyped = !json_object_get(model, "type") && f->vocab && f->merges;
    if (!untyped && !is_type(model, "BPE"))
        return refuse(f, "model", type_of(model), err);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!is_off(model, options[i]))
            return refuse(f, "option", options[i], err);
    return 0;
}

int kiln_tokenizer_steps_read(struct kiln_tokenizer_files *f, const json_t *root,
                              struct kiln_error *err)
{
    static const struct step_kind normalizer = {"normalizer", "normalizers", take_normalizer},
                                  pre = {"pre_tokenizer", "pretokenizers", take_pre_tokenizer},
                                  post = {"post_processor", "processors", take_post_processor};
    int rc = take_steps(f, &normalizer, json_object_get(root, normalizer.name), err);
    if (!rc)
        rc = take_steps(f, &pre, json_object_get(root, pre.name), err);
    if (!rc && !f->bytes)
        rc = refuse(f, "pre_tokenizer", "without Split and ByteLevel", err);
    if (!rc)
        rc = take_model(f, json_object_get(root, "model"), err);
    if (!rc)
        rc = take_steps(f, &post, json_object_get(root, post.name), err);
    /* Prompts are cut at Kiln's own length whatever the file says, but from the right. */
    const char *side =
        json_string_value(json_object_get(json_object_get(root, "truncation"), "direction"));
    if (!rc && side && strcmp(side, "Right") != 0)
        rc = refuse(f, "truncation direction", side, err);
    f->added = json_object_get(root, "added_tokens");
    return rc;
}

int kiln_tokenizer_options_check(const char *dir, const json_t *config, struct kiln_error *err)
{
    static const char *const options[] = {"split_special_tokens", "add_prefix_space",
                                          "add_eos_token", "add_bos_token"};
    const char *side = json_string_value(json_object_get(config, "truncation_side"));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        /* Without a first token there is nothing to add. */
        if (strcmp(options[i], "add_bos_token") == 0 && is_off(config, "bos_token"))
            continue;
        if (!is_off(config, options[i]))
            return kiln_fail(err, KILN_UNSUPPORTED,
                             "%s/tokenizer_config.json: option \"%s\" is not supported", dir,
                             options[i]);
    }
    if (side && strcmp(side, "right") != 0)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s/tokenizer_config.json: truncation_side \"%.64s\" is not supported",
                         dir, side);
    return 0;
}
