/* names.c - see names.h. */
#include "worker/verbs/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schemas/job/sizes.h"
#include "schemas/job/styles.h"
#include "schemas/text/text.h"
#include "storage/formats/card/model_card.h"
#include "storage/formats/styles_file.h"

int kiln_verb_names_size(const struct kiln_verb_names *names, int32_t *ret_width,
                         int32_t *ret_height, struct kiln_error *err)
{
    uint32_t width, height;
    struct kiln_error why;
    if (kiln_size_parse(names->size, strlen(names->size), kiln_model_side(names->model), &width,
                        &height, &why))
        return kiln_fail(err, KILN_BAD_INPUT, "--size: %s", why.text);
    *ret_width = (int32_t)width;
    *ret_height = (int32_t)height;
    return 0;
}

/* "before text after", as a new text within the limit of a prompt. */
static int join(const char *what, const char *before, const char *text, const char *after,
                char **ret, struct kiln_error *err)
{
    struct kiln_text joined = {0};
    kiln_text_puts(&joined, before);
    kiln_text_puts(&joined, text);
    kiln_text_puts(&joined, after);
    int code = joined.len > KILN_PROMPT_MAX
                   ? kiln_fail(err, KILN_BAD_INPUT,
                               "--%s: %zu bytes with the words of the style; the limit is %d", what,
                               joined.len, KILN_PROMPT_MAX)
                   : 0;
    *ret = code ? NULL : kiln_text_take(&joined);
    kiln_text_release(&joined);
    return code || *ret ? code : kiln_fail(err, KILN_NO_MEMORY, "no memory for the prompt");
}

int kiln_verb_names_style(struct kiln_verb_names *names, DiffusionZItem *item,
                          struct kiln_error *err)
{
    struct kiln_styles *more = NULL;
    int code =
        names->styles && names->styles[0] ? kiln_styles_file_read(names->styles, &more, err) : 0;
    const struct kiln_styles *styles = more ? more : kiln_styles_builtin();
    const struct kiln_style *style =
        styles ? kiln_styles_find(styles, names->style, strlen(names->style)) : NULL;
    if (code == 0 && !style && strcmp(names->style, "none") != 0)
        code = kiln_fail(err, KILN_BAD_INPUT,
                         "--style: there is no style \"%.64s\"; `kiln styles` lists them",
                         names->style);
    if (code == 0 && style)
        code = join("prompt", style->prefix, item->prompt, style->suffix, &names->prompt, err);
    const char *own = item->negative_prompt ? item->negative_prompt : "";
    if (code == 0 && style && style->negative[0])
        code = join("negative", own, own[0] ? ", " : "", style->negative, &names->negative, err);
    if (code == 0 && names->prompt)
        item->prompt = names->prompt;
    if (code == 0 && names->negative)
        item->negative_prompt = names->negative;
    kiln_styles_free(more);
    return code;
}

int kiln_verb_names_loras(struct kiln_verb_names *names, DiffusionZLora *loras, int count,
                          struct kiln_error *err)
{
    const bool own = names->lora_dir && names->lora_dir[0];
    for (int i = 0; i < count; i++) {
        const char *name = loras[i].path;
        if (access(name, F_OK) == 0)
            continue;
        int len = snprintf(names->paths[i], PATH_MAX, "%s%s/%s.safetensors",
                           own ? names->lora_dir : names->model, own ? "" : "/loras", name);
        if (len < 0 || len >= PATH_MAX || strchr(name, '/') || access(names->paths[i], F_OK) != 0)
            return kiln_fail(err, KILN_NOT_FOUND,
                             "--lora %.256s: neither a file nor the name of one in %s%s", name,
                             own ? names->lora_dir : names->model, own ? "" : "/loras");
        loras[i].path = names->paths[i];
    }
    return 0;
}

void kiln_verb_names_release(struct kiln_verb_names *names)
{
    free(names->prompt);
    free(names->negative);
}
