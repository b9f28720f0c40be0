/* list.c - `kiln lora ls` and `kiln lora show`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/lora/registry.h"
#include "storage/ledger/ledger.h"

#define NAME_COLUMNS 22

/* {"name", ..., "entry"}: all that is known of a row. */
static void row_json(struct kiln_text *out, const struct kiln_lora_row *row)
{
    kiln_json_put(
        out, "{name:s version:u until:u at:t who:s tenant:s sha256:s bytes:u rank:u modules:u",
        row->name, row->since, row->until, row->at_ms, row->who, row->tenant, row->file.sha256,
        row->file.bytes, (uint64_t)row->file.rank, (uint64_t)row->file.modules);
    kiln_json_put(out, row->file.strength >= 0 ? " strength:d" : " strength:n", row->file.strength);
    kiln_json_put(out, " enabled:b routable:b stored:b lora_dir:b", row->enabled, row->routable,
                  row->file.stored, row->seen);
    kiln_text_puts(out, ",\"entry\":");
    kiln_text_puts(out, row->entry);
    kiln_text_puts(out, "}\n");
}

/* The first trigger, else the first phrase. */
static const char *first_text(const json_t *entry)
{
    const char *text = json_string_value(json_array_get(json_object_get(entry, "triggers"), 0));
    return text ? text : json_string_value(json_array_get(json_object_get(entry, "positive"), 0));
}

static int put_row(void *arg, const struct kiln_lora_row *row, struct kiln_error *err)
{
    struct kiln_listing *listing = arg;
    struct kiln_text *line = &listing->line;
    if (listing->cli->json) {
        row_json(line, row);
        return kiln_listing_put(listing, err);
    }
    json_t *entry = json_loads(row->entry, 0, NULL);
    const char *category = json_string_value(json_object_get(entry, "category"));
    const char *text = first_text(entry);
    char rank[16] = "-", strength[16] = "-";
    if (row->file.modules) {
        snprintf(rank, sizeof rank, "%u", row->file.rank);
        snprintf(strength, sizeof strength, "%.3g", row->file.strength);
    }
    kiln_text_cell(line, listing->cli->columns, row->name, NAME_COLUMNS);
    kiln_text_printf(line, " %4llu %9s %4s %8s  %-9.9s ", (unsigned long long)row->since,
                     KILN_BYTES(row->file.bytes), rank, strength, category ? category : "style");
    kiln_text_safe(line, !row->enabled ? "(disabled)"
                         : row->seen   ? "(lora_dir)"
                         : text        ? text
                                       : "");
    kiln_text_puts(line, "\n");
    json_decref(entry);
    return kiln_listing_put(listing, err);
}

int kiln_lora_arg_at(struct kiln_cli *cli, const struct kiln_args *args, uint64_t *ret)
{
    long at;
    const char *name = kiln_arg(args, "at") ? "at" : "version";
    if (kiln_arg(args, "at") && kiln_arg(args, "version"))
        return kiln_usage(cli, "--at is the old name of --version: give one of them");
    int status = kiln_arg_int(cli, args, name, 0, 2000000000, -1, &at);
    *ret = at < 0 ? KILN_LORA_NOW : (uint64_t)at;
    return status;
}

int kiln_lora_ls(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_listing listing = {.cli = cli, .none = "no LoRAs: add one with `kiln lora add`"};
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    uint64_t at;
    if (args->rest_count != 1)
        return kiln_usage(cli, "`kiln lora ls` takes no '%.40s'", args->rest[1]);
    int status = kiln_lora_arg_at(cli, args, &at);
    if (status)
        return status;
    int rc = kiln_open_reader(cli, &ledger, &err);
    if (rc)
        return kiln_report(cli, &err);
    kiln_listing_head(&listing, "%-*s %4s %9s %4s %8s  %-9s %s", NAME_COLUMNS, "NAME", "VERS",
                      "BYTES", "RANK", "STRENGTH", "CATEGORY", "TRIGGER");
    rc = kiln_lora_rows(ledger, kiln_pool(cli), at, NULL, put_row, &listing, &err);
    kiln_ledger_close(ledger);
    return kiln_listing_end(&listing, rc, &err);
}

/* --- show ------------------------------------------------------------------------------------- */

#define FIELD_COLUMNS 15 /* where values begin */

struct shown {
    const struct kiln_cli *cli;
    uint64_t lora, since; /* of the row */
};

static void print_value(const struct kiln_cli *cli, const char *key, const json_t *value)
{
    size_t i;
    const json_t *item;
    char number[32];
    if (json_is_string(value))
        kiln_print_fit(cli, FIELD_COLUMNS, "  %-12s %s", key, json_string_value(value));
    else if (json_is_boolean(value))
        kiln_print_fit(cli, FIELD_COLUMNS, "  %-12s %s", key, json_is_true(value) ? "yes" : "no");
    else if (json_is_number(value)) {
        snprintf(number, sizeof number, "%.6g", json_number_value(value));
        kiln_print_fit(cli, FIELD_COLUMNS, "  %-12s %s", key, number);
    }
    json_array_foreach(value, i, item)
    {
        char *other = json_is_string(item) ? NULL : json_dumps(item, JSON_ENCODE_ANY);
        kiln_print_fit(cli, FIELD_COLUMNS, "  %-12s %s", i ? "" : key,
                       other ? other : json_string_value(item));
        free(other);
    }
}

static int print_step(void *arg, const struct kiln_lora_row *row, struct kiln_error *err)
{
    char at[32];
    const struct shown *shown = arg;
    (void)err;
    kiln_print_fit(shown->cli, FIELD_COLUMNS, "  version %-5llu %s  %s  %.12s  %s%s",
                   (unsigned long long)row->since, kiln_short_time(row->at_ms, at, sizeof at),
                   row->name, row->file.sha256, row->who,
                   row->since == shown->since ? "  (shown)" : "");
    return 0;
}

static int print_row(void *arg, const struct kiln_lora_row *row, struct kiln_error *err)
{
    struct shown *shown = arg;
    const struct kiln_cli *cli = shown->cli;
    const char *key;
    json_t *value, *entry = json_loads(row->entry, 0, NULL);
    (void)err;
    shown->lora = row->lora;
    shown->since = row->since;
    kiln_print_fit(cli, 0, "%s", row->name);
    kiln_print_fit(cli, FIELD_COLUMNS, "  %-12s %s", "sha256", row->file.sha256);
    kiln_print_fit(cli, FIELD_COLUMNS, "  %-12s %s%s", "file", KILN_BYTES(row->file.bytes),
                   row->file.stored ? ", in the store" : ", in directories of LoRAs only");
    if (row->file.modules)
        kiln_print_fit(cli, FIELD_COLUMNS, "  %-12s rank %u, %s, strength %.3g", "weights",
                       row->file.rank, KILN_COUNT(row->file.modules, "module"), row->file.strength);
    kiln_print_fit(cli, FIELD_COLUMNS, "  %-12s %s", "chosen",
                   row->routable  ? "by prompts with loras \"auto\", and by name"
                   : row->enabled ? "by name only: it has no texts"
                                  : "by name only: it is disabled");
    json_object_foreach(entry, key, value)
    {
        if (strcmp(key, "name") != 0)
            print_value(cli, key, value);
    }
    json_decref(entry);
    return 0;
}

static int put_json(void *arg, const struct kiln_lora_row *row, struct kiln_error *err)
{
    (void)err;
    row_json(arg, row);
    return 0;
}

int kiln_lora_show(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_lora_registry registry;
    struct kiln_lora_found found = {0};
    struct kiln_text json = {0};
    struct kiln_error err;
    uint64_t at;
    struct shown shown = {.cli = cli};
    if (args->rest_count != 2)
        return kiln_usage(cli, "give the name: kiln lora show NAME");
    const char *name = args->rest[1], *pool = kiln_pool(cli);
    int status = kiln_lora_arg_at(cli, args, &at);
    if (status)
        return status;
    int rc = kiln_lora_registry_open(cli, false, &registry, &err);
    if (rc)
        return kiln_report(cli, &err);
    if (at == KILN_LORA_NOW)
        rc = kiln_lora_registry_find(&registry, name, &found, &err);
    if (rc == 0 && cli->json)
        rc = kiln_lora_rows(registry.ledger, pool, at, name, put_json, &json, &err);
    else if (rc == 0)
        rc = kiln_lora_rows(registry.ledger, pool, at, name, print_row, &shown, &err);
    if (rc == 0 && !shown.lora && !json.len)
        rc = kiln_fail(&err, KILN_NOT_FOUND, "version %llu of the registry has no LoRA '%s'",
                       (unsigned long long)at, name);
    if (rc == 0 && shown.lora)
        rc = kiln_lora_history(registry.ledger, shown.lora, print_step, &shown, &err);
    if (json.len)
        fputs(json.at, stdout);
    kiln_text_release(&json);
    kiln_lora_found_release(&found);
    kiln_lora_registry_close(&registry);
    return rc ? kiln_report(cli, &err) : 0;
}
