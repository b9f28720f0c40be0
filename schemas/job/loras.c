/* loras.c - the "loras" of a job line: "none", "auto", "NAME:SCALE+NAME", or a list of objects; and
 * "routed", what "auto" put in front of the prompt. */
#include <stdlib.h>
#include <string.h>

#include "schemas/job/draft.h"
#include "schemas/names.h"

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, *(const char *const *)entry);
}

/* KILN_BAD_INPUT, with the name that was probably meant, if the context knows any and this is none
 * of them. */
static int check_known(const struct kiln_job_context *context, const char *name,
                       struct kiln_error *err)
{
    static const char *const words[] = {"none", "auto"};
    const char *const *known = context->lora_names;
    size_t count = context->lora_name_count;
    if (!known || bsearch(name, known, count, sizeof *known, compare_name))
        return 0;
    struct kiln_error away = {0};
    int rc = context->more_loras
                 ? context->more_loras(context->more_loras_arg, &known, &count, &away)
                 : 0;
    if (rc)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "loras: unknown LoRA \"%s\"; lora_dir has none of that name, and the "
                         "registry cannot be read: %s",
                         name, away.text);
    if (bsearch(name, known, count, sizeof *known, compare_name))
        return 0;
    const char *near = kiln_nearest(name, strlen(name), known, count);
    if (!near)
        near = kiln_nearest(name, strlen(name), words, sizeof words / sizeof *words);
    if (near)
        return kiln_fail(err, KILN_BAD_INPUT, "loras: unknown LoRA \"%s\"; did you mean \"%s\"?",
                         name, near);
    return kiln_fail(err, KILN_BAD_INPUT, "loras: unknown LoRA \"%s\"; %s none%s", name,
                     context->more_loras ? "lora_dir and the registry have" : "lora_dir has",
                     count ? " like it" : "");
}

/* The one place that adds a LoRA to a job. */
static int add_lora(const struct kiln_draft *draft, struct kiln_job *job, const char *name,
                    double scale, struct kiln_error *err)
{
    if (job->lora_count == KILN_LORAS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "loras: more than %d; a job can have at most %d",
                         KILN_LORAS_MAX, KILN_LORAS_MAX);
    if (!kiln_name_valid(name, strlen(name), KILN_NAME_MAX))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "loras: \"%.80s\" is not a name of up to %d " KILN_NAME_RULE, name,
                         KILN_NAME_MAX);
    if (!(scale >= -KILN_LORA_SCALE_MAX && scale <= KILN_LORA_SCALE_MAX))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "loras: scale of \"%s\" is %g; it must be from %g to %g", name, scale,
                         -KILN_LORA_SCALE_MAX, KILN_LORA_SCALE_MAX);
    for (uint32_t i = 0; i < job->lora_count; i++)
        if (strcmp(job->loras[i].name, name) == 0)
            return kiln_fail(err, KILN_BAD_INPUT, "loras: \"%s\" is named twice", name);
    int code = check_known(draft->context, name, err);
    if (code)
        return code;
    struct kiln_lora *lora = &job->loras[job->lora_count++];
    memset(lora, 0, sizeof *lora);
    memcpy(lora->name, name, strlen(name));
    lora->scale = scale == 0 ? 0 : scale;
    return 0;
}

/* "ink:0.8+paper" */
static int read_set_text(const struct kiln_draft *draft, struct kiln_job *job,
                         struct kiln_error *err)
{
    char text[KILN_LORA_SET_MAX];
    if (!kiln_json_string(&draft->values[KILN_JOB_KEY_LORAS], text, sizeof text, NULL))
        return kiln_draft_wrong(draft, KILN_JOB_KEY_LORAS, err);
    char *save, *end;
    for (char *name = strtok_r(text, "+", &save); name; name = strtok_r(NULL, "+", &save)) {
        char *colon = strchr(name, ':');
        double scale = 1;
        if (colon) {
            struct kiln_json_value number = {KILN_JSON_NUMBER, false, colon + 1, strlen(colon + 1)};
            *colon = '\0';
            end = colon + 1;
            if (number.len == 0 || strspn(end, "-.0123456789") != number.len ||
                !kiln_json_double(&number, &scale))
                return kiln_fail(err, KILN_BAD_INPUT, "loras: scale of \"%.64s\" is not a number",
                                 name);
        }
        int code = add_lora(draft, job, name, scale, err);
        if (code)
            return code;
    }
    return job->lora_count > 0 ? 0 : kiln_draft_wrong(draft, KILN_JOB_KEY_LORAS, err);
}

/* {"name": NAME, "scale": NUMBER} */
static int read_object(const struct kiln_draft *draft, const struct kiln_json_value *object,
                       struct kiln_job *job, struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value key, value;
    char name[KILN_NAME_MAX + 2] = "";
    double scale = 1;
    bool more, named = false, scaled = false;
    int code = kiln_json_open(&reader, object->text, object->len, KILN_JSON_OBJECT, err);
    while (!code && !(code = kiln_json_next(&reader, &key, &value, &more, err)) && more) {
        bool is_name = kiln_json_equals(&key, "name");
        if (!is_name && !kiln_json_equals(&key, "scale"))
            return kiln_fail(err, KILN_BAD_INPUT,
                             "loras: unknown key \"%.*s\"; known are name and scale",
                             (int)(key.len < 64 ? key.len : 64), key.text);
        if (is_name ? named : scaled)
            return kiln_fail(err, KILN_BAD_INPUT, "loras: key \"%s\" is given twice",
                             is_name ? "name" : "scale");
        if (is_name &&
            (value.type != KILN_JSON_STRING || !kiln_json_string(&value, name, sizeof name, NULL)))
            return kiln_fail(err, KILN_BAD_INPUT, "loras: name must be a text of up to %d bytes",
                             KILN_NAME_MAX);
        if (!is_name && (value.type != KILN_JSON_NUMBER || !kiln_json_double(&value, &scale)))
            return kiln_fail(
                err, KILN_BAD_INPUT, "loras: scale must be a number from %g to %g, not %s",
                -KILN_LORA_SCALE_MAX, KILN_LORA_SCALE_MAX, kiln_json_type_name(value.type));
        named = named || is_name;
        scaled = scaled || !is_name;
    }
    if (!code && !named)
        code = kiln_fail(err, KILN_BAD_INPUT, "loras: an entry has no name");
    return code ? code : add_lora(draft, job, name, scale, err);
}

/* The elements of the list form. */
static int read_objects(const struct kiln_draft *draft, struct kiln_job *job,
                        struct kiln_error *err)
{
    const struct kiln_json_value *list = &draft->values[KILN_JOB_KEY_LORAS];
    struct kiln_json_reader reader;
    struct kiln_json_value element;
    bool more;
    int code = kiln_json_open(&reader, list->text, list->len, KILN_JSON_ARRAY, err);
    while (!code && !(code = kiln_json_next(&reader, NULL, &element, &more, err)) && more) {
        if (element.type != KILN_JSON_OBJECT)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "loras: an entry is %s; it must be an object with name and scale",
                             kiln_json_type_name(element.type));
        code = read_object(draft, &element, job, err);
    }
    return code;
}

/* Words in front of the prompt, which is built already. */
static int read_routed(const struct kiln_draft *draft, struct kiln_job *job, struct kiln_error *err)
{
    char *words;
    int code = kiln_draft_text(draft, KILN_JOB_KEY_ROUTED, NULL, &words, err);
    if (code || !words)
        return code;
    const size_t len = strlen(words), whole = len + strlen(job->prompt);
    if (job->lora_auto)
        code = kiln_fail(err, KILN_BAD_INPUT,
                         "loras \"auto\" and routed are both given; routed is what an earlier "
                         "\"auto\" put in front of the prompt");
    else if (whole > KILN_PROMPT_MAX)
        code = kiln_fail(err, KILN_BAD_INPUT,
                         "prompt is %zu bytes with the words of routed; the limit is %d", whole,
                         KILN_PROMPT_MAX);
    else if (!kiln_job_draw(job, words, len))
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for a job");
    free(words);
    return code;
}

static int read_loras(const struct kiln_draft *draft, struct kiln_job *job, struct kiln_error *err)
{
    const struct kiln_json_value *value = &draft->values[KILN_JOB_KEY_LORAS];
    job->lora_count = 0;
    job->lora_auto = false;
    if (!kiln_draft_has(draft, KILN_JOB_KEY_LORAS) || kiln_json_equals(value, "none"))
        return 0;
    if (kiln_json_equals(value, "auto")) {
        job->lora_auto = true;
        return 0;
    }
    if (value->type == KILN_JSON_STRING)
        return read_set_text(draft, job, err);
    if (value->type == KILN_JSON_ARRAY)
        return read_objects(draft, job, err);
    return kiln_draft_wrong(draft, KILN_JOB_KEY_LORAS, err);
}

int kiln_draft_loras(const struct kiln_draft *draft, struct kiln_job *job, struct kiln_error *err)
{
    int code = read_loras(draft, job, err);
    return code ? code : read_routed(draft, job, err);
}
