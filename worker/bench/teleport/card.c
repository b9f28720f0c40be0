/* card.c - the object "teleport" of kiln.json (schemas/model.md): made, printed, and put beside
 * what is there; see teleport.h.
 */
#include <stdlib.h>
#include <string.h>

#include "storage/formats/card/model_card.h"
#include "worker/bench/measured/card.h"
#include "worker/bench/teleport/teleport.h"
#include "worker/engine/renderer.h"

/* Makes of a card what the list "loras" has.  A card has room for rows of LoRAs, not for their
 * tables. */
static void name_lora(const struct kiln_teleport_bench *bench, json_t *card)
{
    json_object_set_new(card, "name", json_string(bench->lora_name));
    json_object_set_new(card, "sha256", json_string(bench->lora_hash));
    json_object_set_new(card, "strength", json_real((double)bench->options.lora.weight));
    json_object_del(json_object_get(card, "measured"), "rows");
}

int kiln_teleport_card(const struct kiln_teleport_bench *bench, json_t **ret,
                       struct kiln_error *err)
{
    struct kiln_teleport_finding *found;
    json_t *rows, *not_offered;
    char mode[KILN_MODE_MAX];
    size_t count;
    int code = kiln_teleport_found(bench, &found, &count, err);
    if (code)
        return code;
    code = kiln_teleport_rows(found, count, &rows, &not_offered, err);
    free(found);
    if (code)
        return code;
    *ret = json_pack("{s:s, s:o, s:i, s:o, s:o, s:o, s:o}", "model", bench->pictures.hash, "dtypes",
                     kiln_teleport_dtypes(bench), "steps", bench->options.steps, "soften",
                     kiln_teleport_soften(bench), "rows", rows, "not_offered", not_offered,
                     "measured", kiln_teleport_json(bench));
    if (*ret && bench->options.coarse.kind == KILN_MODE_COARSE)
        json_object_set_new(*ret, "mode",
                            json_string(kiln_mode_steps_text(&bench->options.coarse, mode)));
    if (*ret && bench->options.lora_count)
        name_lora(bench, *ret);
    return *ret ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
}

void kiln_teleport_card_print(const json_t *card)
{
    size_t i;
    const json_t *row;
    puts("\nteleport \"auto\":");
    json_array_foreach(json_object_get(card, "rows"), i, row)
    {
        char *text = json_dumps(row, JSON_REAL_PRECISION(6));
        printf("- %s\n", text ? text : "");
        free(text);
    }
    if (i == 0)
        puts("- nothing is offered: every run is a full one");
    puts("\nnot offered:\n");
    json_array_foreach(json_object_get(card, "not_offered"), i, row)
        printf("- %s\n", json_string_value(row));
    if (i == 0)
        puts("- nothing: every depth is offered");
}

/* --- beside what is there --------------------------------------------------------------------- */

/* What is said once for all rows. */
static const char *const shared[] = {"model", "dtypes", "steps", "soften"};
#define SHARED (sizeof shared / sizeof *shared)

static bool holds_all(const json_t *list, const json_t *some)
{
    size_t i, k;
    const json_t *wanted, *value;
    json_array_foreach(some, i, wanted)
    {
        bool found = false;
        json_array_foreach(list, k, value) found = found || json_equal(value, wanted);
        if (!found)
            return false;
    }
    return json_array_size(some) > 0;
}

const char *kiln_teleport_differs(const json_t *had, json_t *card)
{
    json_t *dtypes = json_object_get(card, "dtypes"), *row;
    const json_t *before = json_object_get(had, "dtypes");
    size_t i;
    for (size_t k = 0; k < SHARED; k++)
        if (strcmp(shared[k], "dtypes") == 0
                ? !holds_all(dtypes, before)
                : !json_equal(json_object_get(had, shared[k]), json_object_get(card, shared[k])))
            return shared[k];
    if (json_array_size(dtypes) == json_array_size(before))
        return NULL;
    json_array_foreach(json_object_get(card, "rows"), i, row)
        json_object_set(row, "dtypes", dtypes);
    json_object_set(card, "dtypes", json_object_get(had, "dtypes"));
    return NULL;
}

static bool is_measured(const struct kiln_teleport_bench *bench, const char *size)
{
    char own[24];
    for (int i = 0; i < bench->options.size_count && size; i++) {
        snprintf(own, sizeof own, "%ux%u", bench->tables[i].size.width,
                 bench->tables[i].size.height);
        if (strcmp(own, size) == 0)
            return true;
    }
    return false;
}

/* The sizes of a row that were not measured now; a new list. */
static json_t *other_sizes(const struct kiln_teleport_bench *bench, const json_t *row)
{
    json_t *list = json_array(), *size;
    size_t i;
    json_array_foreach(json_object_get(row, "for"), i,
                       size) if (!is_measured(bench, json_string_value(size)))
        json_array_append(list, size);
    return list;
}

/* "reworded, skip 3 at 256x256, bf16: why" is of 256x256. */
static bool is_reason_of_measured(const struct kiln_teleport_bench *bench, const char *text)
{
    char size[24];
    const char *at = text ? strstr(text, " at ") : NULL;
    if (!at)
        return false;
    snprintf(size, sizeof size, "%.*s", (int)strcspn(at + 4, ":,"), at + 4);
    return is_measured(bench, size);
}

/* Appends to the new card what the old one has of sizes that were not measured now, and of refused
 * pairs if none were.  Its rows of "measured" say of what occasion they are. */
static int keep_other_sizes(const struct kiln_teleport_bench *bench, const json_t *had,
                            json_t *card, struct kiln_error *err)
{
    static const char *const occasion[] = {"command", "date", "device"};
    json_t *old = json_object_get(had, "measured"), *row;
    bool good = true;
    size_t i;
    json_array_foreach(json_object_get(had, "rows"), i, row)
    {
        json_t *sizes = other_sizes(bench, row), *kept = json_copy(row);
        const bool some = json_array_size(sizes) > 0;
        good = good && sizes && kept && json_object_set_new(kept, "for", sizes) == 0;
        if (good && some)
            good = json_array_append(json_object_get(card, "rows"), kept) == 0;
        json_decref(kept);
    }
    json_array_foreach(json_object_get(had, "not_offered"), i,
                       row) if (good && !is_reason_of_measured(bench, json_string_value(row)))
        good = json_array_append(json_object_get(card, "not_offered"), row) == 0;
    json_array_foreach(json_object_get(old, "rows"), i, row)
    {
        const char *pairs = json_string_value(json_object_get(row, "pairs"));
        const bool passed = pairs && strncmp(pairs, "refused", 7) == 0 && !bench->options.refused;
        if (is_measured(bench, json_string_value(json_object_get(row, "size"))) && !passed)
            continue;
        for (size_t k = 0; k < sizeof occasion / sizeof *occasion && good; k++)
            if (!json_object_get(row, occasion[k]))
                good = json_object_set(row, occasion[k], json_object_get(old, occasion[k])) == 0;
        good = good && json_array_append(json_object_get(json_object_get(card, "measured"), "rows"),
                                         row) == 0;
    }
    static const char *const apart[] = {"small", "coarse", "loras", "gate"};
    for (size_t k = 0; k < sizeof apart / sizeof *apart && good; k++)
        if (!json_object_get(card, apart[k]) && json_object_get(had, apart[k]))
            good = json_object_set(card, apart[k], json_object_get(had, apart[k])) == 0;
    return good ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
}

/* Puts a LoRA in its place in the list of the old card: that of its file, or the end. */
static int add_lora(json_t *had, json_t *card)
{
    json_t *list = json_object_get(had, "loras"), *lora;
    size_t i;
    if (!json_is_array(list) && json_object_set_new(had, "loras", list = json_array()) != 0)
        return -1;
    json_array_foreach(list, i, lora)
    {
        if (json_equal(json_object_get(lora, "sha256"), json_object_get(card, "sha256")))
            return json_array_set(list, i, card);
    }
    return json_array_append(list, card);
}

/* Puts the rows of small donors, of coarse runs, or of a LoRA, under their name in the old card. */
static int add_part(json_t *had, const char *name, json_t *card, struct kiln_error *err)
{
    const char *other = kiln_teleport_differs(had, card);
    if (other)
        return kiln_fail(err, KILN_CONFIG,
                         KILN_MODEL_CARD " has no rows of teleport with the same \"%s\": measure "
                                         "without --%s first",
                         other, strcmp(name, "loras") == 0 ? "lora" : name);
    for (size_t i = 0; i < SHARED; i++)
        json_object_del(card, shared[i]);
    return (strcmp(name, "loras") == 0 ? add_lora(had, card) : json_object_set(had, name, card)) ==
                   0
               ? 0
               : kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
}

int kiln_teleport_card_write(const struct kiln_teleport_bench *bench, json_t *card,
                             struct kiln_error *err)
{
    json_t *whole;
    int code = kiln_measured_card_read(bench->options.model, &whole, err);
    if (code)
        return code;
    json_t *had = json_object_get(whole, "teleport");
    const char *part = bench->options.lora_count                        ? "loras"
                       : bench->options.small                           ? "small"
                       : bench->options.coarse.kind == KILN_MODE_COARSE ? "coarse"
                                                                        : NULL;
    if (part)
        code = add_part(had, part, card, err);
    const char *other = part || !had ? NULL : kiln_teleport_differs(had, card);
    if (other)
        fprintf(stderr,
                "kiln bench teleport: the other rows of teleport in " KILN_MODEL_CARD
                " have another \"%s\", so they are replaced\n",
                other);
    else if (!part && had)
        code = keep_other_sizes(bench, had, card, err);
    if (code == 0)
        code = kiln_measured_card_write(bench->options.model, "teleport", part ? had : card, err);
    json_decref(whole);
    return code;
}
