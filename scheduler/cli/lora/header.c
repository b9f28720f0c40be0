/* header.c - see header.h. */
#include "scheduler/cli/lora/header.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/lora/entry.h"

#define CLAIM_MAX 120        /* bytes of a claim that are shown */
#define TAG_MAX 40           /* of a tag */
#define TAGS_SHOWN 5         /* the most frequent ones */
#define TAGS_BYTES (1 << 20) /* a longer list of tags is not read */

static void say_claim(const struct kiln_cli *cli, const char *name, const char *what,
                      const char *text)
{
    char clean[CLAIM_MAX + 1];
    kiln_lora_clean_text(text, clean, CLAIM_MAX);
    if (*clean)
        kiln_say(cli, "      the header of %s claims as %s: %s", name, what, clean);
}

/* How often each tag stands in the captions that a trainer saw: {"directory": {"tag": 12}}. */
static json_t *count_tags(const char *text)
{
    json_t *root = strlen(text) <= TAGS_BYTES ? json_loads(text, 0, NULL) : NULL;
    json_t *sums = json_object(), *tags, *count;
    const char *directory, *tag;
    json_object_foreach(root, directory, tags)
    {
        json_object_foreach(tags, tag, count)
        {
            const double sum = json_number_value(json_object_get(sums, tag));
            (void)json_object_set_new(sums, tag, json_real(sum + json_number_value(count)));
        }
    }
    json_decref(root);
    return sums;
}

static void say_tags(const struct kiln_cli *cli, const char *name, const char *text)
{
    json_t *sums = count_tags(text), *sum;
    char line[CLAIM_MAX + 1] = "";
    for (int i = 0; i < TAGS_SHOWN && json_object_size(sums); i++) {
        const char *tag, *best = NULL;
        char clean[TAG_MAX + 1];
        double most = -1;
        json_object_foreach(sums, tag, sum)
        {
            if (json_number_value(sum) > most || !best) {
                most = json_number_value(sum);
                best = tag;
            }
        }
        kiln_lora_clean_text(best, clean, TAG_MAX);
        const size_t used = strlen(line);
        if (*clean)
            snprintf(line + used, sizeof line - used, "%s%s", used ? ", " : "", clean);
        (void)json_object_del(sums, best);
    }
    say_claim(cli, name, "tags of its captions", line);
    json_decref(sums);
}

void kiln_lora_say_claims(const struct kiln_cli *cli, const struct kiln_lora_file *file,
                          const char *name)
{
    static const struct {
        const char *key, *what;
    } texts[] = {{"modelspec.trigger_phrase", "triggers"},
                 {"modelspec.title", "title"},
                 {"modelspec.description", "description"},
                 {"modelspec.usage_hint", "usage"},
                 {"modelspec.tags", "tags"},
                 {"modelspec.license", "licence"},
                 {"modelspec.architecture", "base"},
                 {"ss_base_model_version", "base"},
                 {"ss_output_name", "name"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = kiln_lora_metadata(file, texts[i].key);
        if (text)
            say_claim(cli, name, texts[i].what, text);
    }
    const char *tags = kiln_lora_metadata(file, "ss_tag_frequency");
    if (tags)
        say_tags(cli, name, tags);
}
